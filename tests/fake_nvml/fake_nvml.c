/*
 * A libnvidia-ml.so.1 that reads its machine from the text file named by FAKE_NVML: one "word value" per line.
 *
 *   driver_version 580.65.06      the release of the driver
 *   cuda_version 13000            what nvmlSystemGetCudaDriverVersion returns
 *   device_count 2                what nvmlDeviceGetCount returns, if not the number of GPUs
 *   mig_slots 7                   what nvmlDeviceGetMaxMigDeviceCount returns
 *   gpu                           begins a GPU; the lines that follow describe it
 *   name NVIDIA GeForce RTX 4090  and so on: see `settings` below; what a GPU lacks answers NVML_ERROR_NOT_SUPPORTED
 *   process 4711 536870912        a compute process: pid and bytes
 *   mig_instance MIG-uuid 20937965568 NVIDIA A100 MIG 3g.20gb
 *   peer_status 5                 what every nvmlDeviceGetP2PStatus returns
 *   fail FUNCTION NUMBER [FROM [GPU]]    that call returns NUMBER, from the FROMth call on, for one GPU only
 *   hang FUNCTION SECONDS         that call sleeps first
 *   crash FUNCTION                that call ends the process with SIGSEGV
 *   exit FUNCTION                 that call ends the process with exit code 0
 *
 * Signatures and structures as in NVIDIA's nvml.h.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
};

enum { MOST_GPUS = 64, MOST_PARTS = 8, MOST_FAULTS = 16 };

struct process {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance;
    unsigned compute_instance;
};

/* A GPU or a MIG instance: what an nvmlDevice_t points to. Numbers of -1 are not supported. */
struct device {
    int index;
    char name[96], uuid[96], bus_id[32];
    long long capability, brand, memory, memory_free, compute_mode, mig_mode, ecc_mode, ecc_uncorrected;
    long long retired_pages_pending, remapped_rows_pending, remapped_rows_failed, power_limit, power_default_limit;
    long long temperature, clock_event_reasons, pcie_width, pcie_max_width, pcie_generation, pcie_max_generation;
    long long persistence_mode, bar1_memory;
    int process_count, mig_count;
    struct process processes[MOST_PARTS];
    struct device *mig[MOST_PARTS];
};

struct fault {
    char kind[16], function[64];
    int number, from, gpu, calls;
};

static char driver_version[80] = "580.65.06";
static int cuda_version = 13000, peer_status = 5;
static struct device gpus[MOST_GPUS];
static int gpu_count;
static long long device_count = -1, mig_slots = 7;
static struct fault faults[MOST_FAULTS];
static int fault_count;

static struct { const char *word; size_t offset; } settings[] = {
#define SETTING(field) { #field, __builtin_offsetof(struct device, field) }
    SETTING(capability), SETTING(brand), SETTING(memory), SETTING(memory_free), SETTING(compute_mode),
    SETTING(mig_mode), SETTING(ecc_mode), SETTING(ecc_uncorrected), SETTING(retired_pages_pending),
    SETTING(remapped_rows_pending), SETTING(remapped_rows_failed), SETTING(power_limit),
    SETTING(power_default_limit), SETTING(temperature), SETTING(clock_event_reasons), SETTING(pcie_width),
    SETTING(pcie_max_width), SETTING(pcie_generation), SETTING(pcie_max_generation), SETTING(persistence_mode),
    SETTING(bar1_memory),
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

/* A mistake in the file must not look like a sick driver. */
static void refuse(const char *line)
{
    fprintf(stderr, "fake_nvml: cannot read: %s\n", line);
    _exit(99);
}

static void set_number(struct device *gpu, const char *word, const char *value)
{
    for (int i = 0; i < SETTINGS; i++)
        if (!strcmp(word, settings[i].word)) {
            *(long long *)((char *)gpu + settings[i].offset) = atoll(value);
            return;
        }
    refuse(word);
}

static void empty_device(struct device *device, int index)
{
    memset(device, 0, sizeof *device);
    device->index = index;
    for (int i = 0; i < SETTINGS; i++)
        *(long long *)((char *)device + settings[i].offset) = -1;
}

static void add_mig_instance(struct device *gpu, const char *value)
{
    struct device *instance = malloc(sizeof *instance);
    empty_device(instance, gpu->index);
    if (sscanf(value, "%95s %lld %95[^\n]", instance->uuid, &instance->memory, instance->name) != 3)
        refuse(value);
    gpu->mig[gpu->mig_count++] = instance;
}

static void add_fault(const char *kind, const char *value)
{
    struct fault *fault = &faults[fault_count++];
    strcpy(fault->kind, kind);
    fault->from = 1;
    fault->gpu = -1;
    if (sscanf(value, "%63s %d %d %d", fault->function, &fault->number, &fault->from, &fault->gpu) < 1)
        refuse(value);
}

static void read_line(const char *word, const char *value)
{
    struct device *gpu = &gpus[gpu_count - 1];
    if (!strcmp(word, "driver_version"))
        strcpy(driver_version, value);
    else if (!strcmp(word, "cuda_version"))
        cuda_version = atoi(value);
    else if (!strcmp(word, "device_count"))
        device_count = atoll(value);
    else if (!strcmp(word, "mig_slots"))
        mig_slots = atoll(value);
    else if (!strcmp(word, "peer_status"))
        peer_status = atoi(value);
    else if (!strcmp(word, "fail") || !strcmp(word, "hang") || !strcmp(word, "crash") || !strcmp(word, "exit"))
        add_fault(word, value);
    else if (!strcmp(word, "gpu")) {
        empty_device(&gpus[gpu_count], gpu_count);
        gpu_count++;
    } else if (!gpu_count)
        refuse(word);
    else if (!strcmp(word, "name"))
        strcpy(gpu->name, value);
    else if (!strcmp(word, "uuid"))
        strcpy(gpu->uuid, value);
    else if (!strcmp(word, "bus_id"))
        strcpy(gpu->bus_id, value);
    else if (!strcmp(word, "process")) {
        struct process *process = &gpu->processes[gpu->process_count++];
        if (sscanf(value, "%u %llu", &process->pid, &process->used_memory) != 2)
            refuse(value);
    } else if (!strcmp(word, "mig_instance"))
        add_mig_instance(gpu, value);
    else
        set_number(gpu, word, value);
}

__attribute__((constructor)) static void read_machine(void)
{
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    if (!file)
        refuse(path ? path : "FAKE_NVML is not set");
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *blank = strchr(line, ' ');
        if (blank)
            *blank = 0;
        read_line(line, blank ? blank + 1 : "");
    }
    fclose(file);
}

/* What the file says about this call: SUCCESS, or the number to fail with. */
static int called(const char *function, const struct device *device)
{
    for (int i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (strcmp(function, fault->function) || (fault->gpu >= 0 && device && fault->gpu != device->index))
            continue;
        if (!strcmp(fault->kind, "hang"))
            sleep(fault->number);
        else if (!strcmp(fault->kind, "crash"))
            raise(SIGSEGV);
        else if (!strcmp(fault->kind, "exit"))
            _exit(0);
        else if (++fault->calls >= fault->from)
            return fault->number;
    }
    return SUCCESS;
}

#define ENTER(device) do { int failure = called(__func__, device); if (failure) return failure; } while (0)

static int give(long long value, unsigned *to)
{
    if (value < 0)
        return NOT_SUPPORTED;
    *to = value;
    return SUCCESS;
}

/* --- the library --- */

typedef struct device *Device;

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error that only this fake knows"; }

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    ENTER(NULL);
    snprintf(version, length, "%s", driver_version);
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER(NULL);
    *version = cuda_version;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER(NULL);
    *count = device_count < 0 ? gpu_count : device_count;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
    if (index >= (unsigned)gpu_count)
        return INVALID_ARGUMENT;
    ENTER(&gpus[index]);
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetName(Device device, char *name, unsigned length)
{
    ENTER(device);
    snprintf(name, length, "%s", device->name);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device device, char *uuid, unsigned length)
{
    ENTER(device);
    snprintf(uuid, length, "%s", device->uuid);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    ENTER(device);
    if (device->capability < 0)
        return NOT_SUPPORTED;
    *major = device->capability / 10;
    *minor = device->capability % 10;
    return SUCCESS;
}

struct pci {
    char old_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(Device device, struct pci *pci)
{
    ENTER(device);
    memset(pci, 0, sizeof *pci);
    strcpy(pci->bus_id, device->bus_id);
    return SUCCESS;
}

struct memory { unsigned long long total, free, used; };

int nvmlDeviceGetMemoryInfo(Device device, struct memory *memory)
{
    ENTER(device);
    if (device->memory < 0)
        return NOT_SUPPORTED;
    memory->total = device->memory;
    memory->free = device->memory_free < 0 ? device->memory : device->memory_free;
    memory->used = memory->total - memory->free;
    return SUCCESS;
}

struct bar1 { unsigned long long total, free, used; };

int nvmlDeviceGetBAR1MemoryInfo(Device device, struct bar1 *bar1)
{
    ENTER(device);
    if (device->bar1_memory < 0)
        return NOT_SUPPORTED;
    bar1->total = bar1->free = device->bar1_memory;
    bar1->used = 0;
    return SUCCESS;
}

static int give_processes(Device device, unsigned *count, struct process *processes)
{
    unsigned room = *count;
    *count = device->process_count;
    if (room < (unsigned)device->process_count)
        return INSUFFICIENT_SIZE;
    if (processes)
        memcpy(processes, device->processes, device->process_count * sizeof *processes);
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned *count, struct process *processes)
{
    ENTER(device);
    return give_processes(device, count, processes);
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, struct process *processes)
{
    ENTER(device);
    return give_processes(device, count, processes);
}

int nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending)
{
    ENTER(device);
    *pending = device->mig_mode;
    return give(device->mig_mode, current);
}

int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *count)
{
    ENTER(device);
    return give(device->mig_mode < 0 ? -1 : mig_slots, count);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned slot, Device *instance)
{
    ENTER(device);
    if (slot >= (unsigned)device->mig_count)
        return NOT_FOUND;
    *instance = device->mig[slot];
    return SUCCESS;
}

int nvmlDeviceGetEccMode(Device device, unsigned *current, unsigned *pending)
{
    ENTER(device);
    *pending = device->ecc_mode;
    return give(device->ecc_mode, current);
}

int nvmlDeviceGetTotalEccErrors(Device device, unsigned type, unsigned counter, unsigned long long *count)
{
    ENTER(device);
    if (type != 1 || counter != 0)
        return INVALID_ARGUMENT;
    if (device->ecc_uncorrected < 0)
        return NOT_SUPPORTED;
    *count = device->ecc_uncorrected;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(
    Device device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    ENTER(device);
    *corrected = *uncorrected = 0;
    *failed = device->remapped_rows_failed;
    return give(device->remapped_rows_pending, pending);
}

int nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *reasons)
{
    ENTER(device);
    if (device->clock_event_reasons < 0)
        return NOT_SUPPORTED;
    *reasons = device->clock_event_reasons;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons)
{
    ENTER(device);
    if (device->clock_event_reasons < 0)
        return NOT_SUPPORTED;
    *reasons = device->clock_event_reasons;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *temperature)
{
    ENTER(device);
    return sensor ? INVALID_ARGUMENT : give(device->temperature, temperature);
}

int nvmlDeviceGetP2PStatus(Device first, Device second, unsigned index, unsigned *status)
{
    (void)second;
    ENTER(first);
    return index > 1 ? INVALID_ARGUMENT : give(peer_status, status);
}

#define NUMBER(function, field) \
    int function(Device device, unsigned *value) { ENTER(device); return give(device->field, value); }

NUMBER(nvmlDeviceGetBrand, brand)
NUMBER(nvmlDeviceGetComputeMode, compute_mode)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, retired_pages_pending)
NUMBER(nvmlDeviceGetPowerManagementLimit, power_limit)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, power_default_limit)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, pcie_width)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, pcie_max_width)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, pcie_max_generation)
NUMBER(nvmlDeviceGetPersistenceMode, persistence_mode)
