// SPDX-License-Identifier: MIT
// A stand-in for libnccl.so.2 and libcuda.so.1 over host memory, for a world of one. The first byte
// of the id chooses what it plays: 'o' all is well, 'h' nobody else ever joins, 'r' another rank
// dies during the first collective, 's' that leaves the stream busy for ever.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kInvalidArgument = 4, kRemoteError = 6, kInProgress = 7 };
enum { kStreamNotReady = 600 };

typedef struct {
  char bytes[128];
} UniqueId;

typedef struct {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
} Config;

typedef struct {
  char role;
  int polls;
  int result;
} Comm;

int fake_nccl_aborted;    // communicators that were given up
int fake_nccl_destroyed;  // and ended in order
int fake_nccl_operation;  // of the last reduction
int fake_nccl_type;
static int stream_busy;

int ncclGetUniqueId(UniqueId* id) {
  memset(id, 7, sizeof(*id));
  id->bytes[0] = 'o';
  return kSuccess;
}

int ncclCommInitRankConfig(Comm** comm, int world, UniqueId id, int rank, const Config* config) {
  if (config->size != sizeof(Config) || config->magic != 0xcafebeefU || config->version != 21400 ||
      config->blocking != 0 || id.bytes[127] != 7 || rank < 0 || rank >= world) {
    return kInvalidArgument;
  }
  *comm = calloc(1, sizeof(Comm));
  (*comm)->role = id.bytes[0];
  stream_busy = 0;
  return kInProgress;
}

int ncclCommGetAsyncError(Comm* comm, int* result) {
  const int joined = comm->role != 'h' && ++comm->polls >= 3;
  *result = joined ? comm->result : kInProgress;
  return kSuccess;
}

int ncclCommAbort(Comm* comm) {
  ++fake_nccl_aborted;
  free(comm);
  return kSuccess;
}

int ncclCommDestroy(Comm* comm) {
  ++fake_nccl_destroyed;
  free(comm);
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kRemoteError ? "remote process exited" : "some error";
}

static int collective(Comm* comm) {
  if (comm->role == 'r') {
    comm->result = kRemoteError;
  }
  stream_busy = comm->role == 'r' || comm->role == 's';
  return kSuccess;
}

int ncclAllReduce(const void* in, void* out, size_t count, int type, int operation, Comm* comm,
                  void* stream) {
  (void)in, (void)out, (void)count, (void)stream;
  fake_nccl_type = type;
  fake_nccl_operation = operation;
  return collective(comm);
}

int ncclBroadcast(const void* in, void* out, size_t count, int type, int root, Comm* comm,
                  void* stream) {
  (void)in, (void)out, (void)count, (void)root, (void)stream;
  fake_nccl_type = type;
  return collective(comm);
}

int cuStreamQuery(void* stream) {
  (void)stream;
  return stream_busy ? kStreamNotReady : kSuccess;
}
