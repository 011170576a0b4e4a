// SPDX-License-Identifier: MIT
// The emulated SM: fibers, shared memory, mbarriers, bulk copies, warp and warpgroup products.
#include "tools/lab/hopper/emulator.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <ucontext.h>

namespace fla::lab {
namespace {

constexpr uint32_t kBase = 1040;  // of dynamic shared memory: on purpose not aligned to 1024
constexpr size_t kStackBytes = size_t{256} * 1024;

struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  int thread = 0;
  bool done = false;
  int num_products = 0, num_commits = 0;  // wgmma, so far
  std::vector<std::function<void()>> open_stores;
  std::vector<std::vector<std::function<void()>>> store_groups;
  const char* waits_in = "";
};
struct Product {  // one wgmma of a warpgroup
  int count = 0;
  bool tf32 = false, accumulate = false, transpose_a = false, transpose_b = false,
       a_in_regs = false;
  uint64_t da = 0, db = 0;
  std::array<float*, 128> d{};
  std::array<std::array<uint32_t, 4>, 128> a{};
  int issued = 0;

  bool same_instruction(const Product& o) const {
    return count == o.count && tf32 == o.tf32 && accumulate == o.accumulate &&
           transpose_a == o.transpose_a && transpose_b == o.transpose_b &&
           a_in_regs == o.a_in_regs && da == o.da && db == o.db;
  }
};
struct Warpgroup {
  std::vector<std::unique_ptr<Product>> products;
  std::vector<int> group_end;
  std::vector<int> committed;  // threads that have committed the group
  int done = 0;                // groups
};
struct Mbarrier {
  int count = 0, pending = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
};
struct Gathering {  // of the lanes of a warp, or of the threads of a barrier
  int count = 0;
  uint64_t generation = 0;
};
struct Warp {
  Gathering gathering;
  std::array<std::array<uint32_t, 6>, 32> in{};
  std::array<std::array<uint32_t, 4>, 32> out{};
};
struct BulkLoad {
  uint32_t dst;
  const void* src;
  uint32_t bytes, barrier;
  int delay;
};

struct Sm {
  ucontext_t scheduler;
  Fiber* fiber = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<uint8_t> memory;
  std::map<uint32_t, Mbarrier> mbarriers;
  std::array<Gathering, 16> named;
  std::vector<Warpgroup> warpgroups;
  std::vector<Warp> warps;
  std::vector<BulkLoad> loads;
  int ctas = 0, cta = 0, threads = 0;
  uint64_t progress = 0, ticks = 0, random = 88172645463325252ULL;
  WgmmaTime time = WgmmaTime::kWait;
  std::function<void()> kernel;
};
Sm sm;

uint32_t random_u32() {
  sm.random ^= sm.random << 13;
  sm.random ^= sm.random >> 7;
  sm.random ^= sm.random << 17;
  return static_cast<uint32_t>(sm.random >> 11);
}
void yield(const char* where) {
  sm.fiber->waits_in = where;
  swapcontext(&sm.fiber->context, &sm.scheduler);
}
/// The last of `threads` to come runs `last`, then all go on.
template <class F>
void gather(Gathering& g, int threads, const char* where, F last) {
  const uint64_t generation = g.generation;
  if (++g.count == threads) {
    last();
    g.count = 0;
    ++g.generation;
    ++sm.progress;
    return;
  }
  while (g.generation == generation)
    yield(where);
}
Warp& own_warp() {
  return sm.warps[static_cast<size_t>(sm.fiber->thread / 32)];
}
size_t own_lane() {
  return static_cast<size_t>(sm.fiber->thread % 32);
}

void complete_phase(Mbarrier& b) {
  if (b.pending < 0)
    emulated::die("mbarrier: more arrivals than its count");
  if (b.pending == 0 && b.bytes == 0) {
    ++b.phase;
    b.pending = b.count;
  }
  ++sm.progress;
}

float shared_element(uint32_t address, bool tf32) {
  uint32_t bits = 0;
  memcpy(&bits, emulated::shared(address, tf32 ? 4 : 2), tf32 ? 4 : 2);
  return tf32 ? float_of(bits & 0xFFFFE000) : bf16_to_float(bits);
}
/// Element (mn, k) of the operand that a descriptor names.
float operand(uint64_t descriptor, uint32_t mn, uint32_t k, bool tf32, bool mn_major) {
  const auto field = [&](int shift) { return static_cast<uint32_t>(descriptor >> shift) & 0x3FFF; };
  if ((descriptor >> 62) != 1 || ((descriptor >> 49) & 7) != 0)
    emulated::die("descriptor: not the 128-byte swizzle, or a base offset");
  const uint32_t start = field(0) << 4, next = field(16) << 4, group = field(32) << 4;
  uint32_t address = mn_major ? start + mn / 64 * next + mn % 64 * 2 + k % 8 * 128 + k / 8 * group
                              : start + mn / 8 * group + mn % 8 * 128 + k * (tf32 ? 4 : 2);
  address ^= ((address >> 7) & 7) << 4;
  return shared_element(address, tf32);
}
/// Element (row, k) of an A fragment held by the threads of a warpgroup.
float fragment(const Product& p, uint32_t row, uint32_t k) {
  const uint32_t thread = row / 16 * 32 + row % 8 * 4, upper = row / 8 % 2;
  if (p.tf32)
    return float_of(p.a[thread + k % 4][upper + k / 4 * 2] & 0xFFFFE000);
  const uint32_t pair = p.a[thread + k % 8 / 2][upper + k / 8 * 2];
  return bf16_to_float(k % 2 != 0 ? pair >> 16 : pair & 0xFFFF);
}
void execute(const Product& p) {
  const uint32_t depth = p.tf32 ? 8 : 16, columns = static_cast<uint32_t>(2 * p.count);
  std::vector<float> a(size_t{64} * depth), b(size_t{columns} * depth);
  for (uint32_t m = 0; m < 64; ++m)
    for (uint32_t k = 0; k < depth; ++k)
      a[m * depth + k] =
          p.a_in_regs ? fragment(p, m, k) : operand(p.da, m, k, p.tf32, p.transpose_a);
  for (uint32_t n = 0; n < columns; ++n)
    for (uint32_t k = 0; k < depth; ++k)
      b[n * depth + k] = operand(p.db, n, k, p.tf32, p.transpose_b);
  for (uint32_t thread = 0; thread < 128; ++thread)
    for (uint32_t i = 0; i < static_cast<uint32_t>(p.count); ++i) {
      const uint32_t m = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
      const uint32_t n = i / 4 * 8 + thread % 4 * 2 + i % 2;
      float sum = p.accumulate ? p.d[thread][i] : 0.0F;
      for (uint32_t k = 0; k < depth; ++k)
        sum += a[m * depth + k] * b[n * depth + k];
      p.d[thread][i] = sum;
    }
}
void run_groups(Warpgroup& w, int end) {
  for (; w.done < end; ++w.done, ++sm.progress) {
    const int first = w.done == 0 ? 0 : w.group_end[static_cast<size_t>(w.done - 1)];
    for (int i = first; i < w.group_end[static_cast<size_t>(w.done)]; ++i) {
      auto& product = w.products[static_cast<size_t>(i)];
      if (product->issued != 128)
        emulated::die("wgmma not issued by all threads of the warpgroup");
      execute(*product);
      product.reset();
    }
  }
}
Warpgroup& own_warpgroup() {
  return sm.warpgroups[static_cast<size_t>(sm.fiber->thread / 128)];
}

void land_bulk_loads() {
  for (size_t i = 0; i < sm.loads.size();) {
    if (--sm.loads[i].delay > 0) {
      ++i;
      continue;
    }
    const BulkLoad load = sm.loads[i];
    sm.loads.erase(sm.loads.begin() + static_cast<ptrdiff_t>(i));
    memcpy(emulated::shared(load.dst, load.bytes), load.src, load.bytes);
    Mbarrier& barrier = sm.mbarriers.at(load.barrier);
    barrier.bytes -= load.bytes;
    complete_phase(barrier);
  }
}
void start_fiber() {
  sm.kernel();
  sm.fiber->done = true;
  ++sm.progress;
  swapcontext(&sm.fiber->context, &sm.scheduler);
}
void reset_cta(int cta, int shared_bytes) {
  sm.cta = cta;
  sm.memory.assign(kBase + static_cast<size_t>(shared_bytes), 0xCD);
  sm.mbarriers.clear();
  sm.named.fill({});
  sm.warpgroups.clear();
  sm.warpgroups.resize(static_cast<size_t>((sm.threads + 127) / 128));
  sm.warps.assign(static_cast<size_t>((sm.threads + 31) / 32), {});
  sm.fibers.clear();
  for (int thread = 0; thread < sm.threads; ++thread) {
    Fiber& fiber = *sm.fibers.emplace_back(std::make_unique<Fiber>());
    fiber.thread = thread;
    fiber.stack.resize(kStackBytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start_fiber, 0);
  }
}
[[noreturn]] void report_deadlock() {
  std::printf("emulator: deadlock in CTA %d\n", sm.cta);
  for (const auto& fiber : sm.fibers)
    if (!fiber->done && fiber->thread % 32 == 0)
      std::printf("  thread %d waits in %s\n", fiber->thread, fiber->waits_in);
  for (const auto& [address, b] : sm.mbarriers)
    std::printf("  mbarrier %u: phase %u, %d arrivals and %lld bytes missing\n", address, b.phase,
                b.pending, static_cast<long long>(b.bytes));
  std::exit(4);
}
void run_cta() {
  std::vector<Fiber*> order;
  for (const auto& fiber : sm.fibers)
    order.push_back(fiber.get());
  uint64_t last = ~uint64_t{0};
  for (int idle = 0; !order.empty(); last = sm.progress) {
    for (size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i], order[random_u32() % (i + 1)]);
    const bool some = random_u32() % 8 == 0;  // sometimes only some run
    for (Fiber* fiber : order) {
      if (some && random_u32() % 4 != 0)
        continue;
      sm.fiber = fiber;
      swapcontext(&sm.scheduler, &fiber->context);
    }
    sm.fiber = nullptr;
    std::erase_if(order, [](const Fiber* fiber) { return fiber->done; });
    land_bulk_loads();
    idle = sm.progress == last && sm.loads.empty() ? idle + 1 : 0;
    if (idle > 3000)
      report_deadlock();
  }
  if (!sm.loads.empty())
    emulated::die("bulk copies in flight at the end");
}

}  // namespace

void emulate(int ctas, int threads, int shared_bytes, WgmmaTime time,
             const std::function<void()>& kernel) {
  sm.ctas = ctas;
  sm.threads = threads;
  sm.time = time;
  sm.kernel = kernel;
  for (int cta = 0; cta < ctas; ++cta) {
    reset_cta(cta, shared_bytes);
    run_cta();
  }
}

namespace emulated {

void die(const char* what) {
  std::printf("emulator: %s (thread %d)\n", what, sm.fiber != nullptr ? sm.fiber->thread : -1);
  std::exit(3);
}
void* shared(uint32_t address, uint32_t bytes) {
  if (address < 1024 || size_t{address} + bytes > sm.memory.size())
    die("shared address out of range");
  if (address % std::min(bytes, 16U) != 0)
    die("shared address not aligned");
  return &sm.memory[address];
}
void wgmma(int count, bool tf32, bool accumulate, bool transpose_a, bool transpose_b, uint64_t da,
           const uint32_t* a, uint64_t db, float* d) {
  Warpgroup& w = own_warpgroup();
  const auto thread = static_cast<size_t>(sm.fiber->thread % 128);
  const auto index = static_cast<size_t>(sm.fiber->num_products++);
  Product product{.count = count,
                  .tf32 = tf32,
                  .accumulate = accumulate,
                  .transpose_a = transpose_a,
                  .transpose_b = transpose_b,
                  .a_in_regs = a != nullptr,
                  .da = da,
                  .db = db};
  if (index == w.products.size())
    w.products.push_back(std::make_unique<Product>(product));
  Product& shared_product = *w.products[index];
  if (!shared_product.same_instruction(product))
    die("wgmma operands differ between threads");
  shared_product.d[thread] = d;
  if (a != nullptr)
    std::copy_n(a, 4, shared_product.a[thread].begin());
  ++shared_product.issued;
}
void wgmma_wait(int pending) {
  Warpgroup& w = own_warpgroup();
  const int target = sm.fiber->num_commits - pending;
  while (w.done < target) {
    const bool ready = std::all_of(w.committed.begin() + w.done, w.committed.begin() + target,
                                   [](int threads) { return threads == 128; });
    if (ready)
      run_groups(w, target);
    else
      yield("wgmma_wait");
  }
}
void bulk_wait(int pending) {
  for (uint32_t i = random_u32() % 6 + 1; i > 0; --i)
    yield("bulk_wait");  // the copy reads late
  auto& groups = sm.fiber->store_groups;
  while (groups.size() > static_cast<size_t>(pending)) {
    for (const auto& store : groups.front())
      store();
    groups.erase(groups.begin());
    ++sm.progress;
  }
}
void store_matrix(bool transposed, uint32_t address, const uint32_t (&r)[4]) {
  Warp& w = own_warp();
  w.in[own_lane()] = {address, r[0], r[1], r[2], r[3]};
  gather(w.gathering, 32, "stmatrix", [&] {
    for (uint32_t m = 0; m < 4; ++m)
      for (uint32_t row = 0; row < 8; ++row)
        for (uint32_t column = 0; column < 8; ++column) {
          const uint32_t i = transposed ? column : row, j = transposed ? row : column;
          const uint32_t pair = w.in[i * 4 + j / 2][1 + m];
          auto* line = static_cast<uint16_t*>(shared(w.in[m * 8 + row][0], 16));
          line[column] = static_cast<uint16_t>(j % 2 != 0 ? pair >> 16 : pair);
        }
  });
}
void mma(bool tf32, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Warp& w = own_warp();
  w.in[own_lane()] = {a[0], a[1], a[2], a[3], b0, b1};
  gather(w.gathering, 32, "mma", [&] {
    const uint32_t per_register = tf32 ? 1 : 2, depth = tf32 ? 8 : 16;
    const auto element = [&](uint32_t lane, uint32_t reg, uint32_t half) {
      const uint32_t bits = w.in[lane][reg];
      if (tf32)
        return float_of(bits & 0xFFFFE000);
      return bf16_to_float(half != 0 ? bits >> 16 : bits & 0xFFFF);
    };
    for (uint32_t m = 0; m < 16; ++m)
      for (uint32_t n = 0; n < 8; ++n) {
        float sum = 0.0F;
        for (uint32_t k = 0; k < depth; ++k) {
          const uint32_t lane = k / per_register % 4, upper = k / (4 * per_register);
          sum += element(m % 8 * 4 + lane, m / 8 + 2 * upper, k % per_register) *
                 element(n * 4 + lane, 4 + upper, k % per_register);
        }
        w.out[m % 8 * 4 + n / 2][m / 8 * 2 + n % 2] = bits_of(sum);
      }
  });
  for (size_t i = 0; i < 4; ++i)
    d[i] += float_of(w.out[own_lane()][i]);
  sync_warp();  // nobody overwrites `out` before all have read it
}

}  // namespace emulated

int thread_idx() {
  return sm.fiber->thread;
}
int num_threads() {
  return sm.threads;
}
int cta_idx() {
  return sm.cta;
}
int num_ctas() {
  return sm.ctas;
}
void sync_cta() {
  sync_named(0, sm.threads);
}
void sync_warp() {
  gather(own_warp().gathering, 32, "sync_warp", [] {});
}
void sync_named(int id, int threads) {
  gather(sm.named[static_cast<size_t>(id)], threads, "barrier", [] {});
}
int warp_uniform(int value) {
  Warp& w = own_warp();
  w.in[own_lane()][0] = static_cast<uint32_t>(value);
  sync_warp();
  const uint32_t first = w.in[0][0];
  sync_warp();
  return static_cast<int>(first);
}
float shuffle_up(float value, int distance) {
  Warp& w = own_warp();
  const size_t lane = own_lane(), back = static_cast<size_t>(distance);
  w.in[lane][0] = bits_of(value);
  sync_warp();
  const uint32_t from = w.in[lane >= back ? lane - back : lane][0];
  sync_warp();
  return float_of(from);
}
uint32_t clock32() {
  return static_cast<uint32_t>(++sm.ticks);
}
int64_t clock_cycles() {
  return static_cast<int64_t>(++sm.ticks);
}
int64_t clock_ns() {
  return static_cast<int64_t>(++sm.ticks);
}
uint32_t shared_base() {
  return (kBase + 1023) & ~1023U;
}

void wgmma_commit() {
  Warpgroup& w = own_warpgroup();
  const auto group = static_cast<size_t>(sm.fiber->num_commits++);
  if (group == w.group_end.size()) {
    w.group_end.push_back(sm.fiber->num_products);
    w.committed.push_back(0);
  }
  if (w.group_end[group] != sm.fiber->num_products)
    emulated::die("wgmma commits differ between threads");
  if (++w.committed[group] == 128 && sm.time == WgmmaTime::kCommit)
    run_groups(w, static_cast<int>(group) + 1);
}
void load_matrix_x4(uint32_t a, uint32_t (&r)[4]) {
  Warp& w = own_warp();
  const size_t lane = own_lane();
  w.in[lane][0] = a;
  sync_warp();
  for (size_t m = 0; m < 4; ++m) {
    const auto* line =
        static_cast<const uint32_t*>(emulated::shared(w.in[m * 8 + lane / 4][0], 16));
    r[m] = line[lane % 4];
  }
  sync_warp();
}
void barrier_init(uint32_t b, uint32_t count) {
  emulated::shared(b, 8);
  sm.mbarriers[b] = {.count = static_cast<int>(count), .pending = static_cast<int>(count)};
}
void barrier_expect(uint32_t b, uint32_t bytes) {
  sm.mbarriers.at(b).bytes += bytes;
  barrier_arrive(b);
}
void barrier_arrive(uint32_t b) {
  Mbarrier& barrier = sm.mbarriers.at(b);
  --barrier.pending;
  complete_phase(barrier);
}
void barrier_wait(uint32_t b, uint32_t parity) {
  while ((sm.mbarriers.at(b).phase & 1) == parity)
    yield("barrier_wait");
}
void bulk_load(uint32_t dst, const void* src, uint32_t bytes, uint32_t barrier) {
  emulated::shared(dst, bytes);
  if (dst % 16 != 0 || reinterpret_cast<uintptr_t>(src) % 16 != 0 || bytes % 16 != 0)
    emulated::die("bulk load not aligned");
  const uint32_t delay = random_u32() % 3 != 0 ? random_u32() % 12 : random_u32() % 400;
  sm.loads.push_back({dst, src, bytes, barrier, static_cast<int>(delay)});
}
void bulk_store(void* dst, uint32_t src, uint32_t bytes) {
  if (src % 16 != 0 || reinterpret_cast<uintptr_t>(dst) % 16 != 0 || bytes % 16 != 0)
    emulated::die("bulk store not aligned");
  sm.fiber->open_stores.emplace_back([=] { memcpy(dst, emulated::shared(src, bytes), bytes); });
}
void bulk_commit() {
  sm.fiber->store_groups.push_back(std::move(sm.fiber->open_stores));
  sm.fiber->open_stores.clear();
}

}  // namespace fla::lab
