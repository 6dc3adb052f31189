// The only loop that starts threads. Work is split into blocks whose number does not depend on the number of threads,
// and each block writes to separate memory, so results are bitwise identical for every number of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "simd.hpp"
#include "types.hpp"

namespace softboost {
namespace SB_ISA {

constexpr int64_t kBlockRows = 512;

inline int64_t block_count(int64_t n_rows, int64_t block_rows = kBlockRows) {
  return (n_rows + block_rows - 1) / block_rows;
}

// Polls for an interrupt; only the thread that called the kernel may call it.
inline bool interrupted(Interrupt* interrupt) {
  if (interrupt == nullptr) return false;
  if (!interrupt->raised && interrupt->poll()) interrupt->raised = true;
  return interrupt->raised;
}

// A single compiled copy of the body. If it were inlined into the loops below, it could be vectorised in two ways, and
// its sums would differ in the last bit between one thread and several.
template <typename Body>
SB_NOINLINE void run_block(Body& body, int64_t block) {
  body(block);
}

// The calling thread takes part and polls for an interrupt between blocks. Exceptions of a block (out of memory) are
// rethrown here.
template <typename Body>
void parallel_for(int64_t n_blocks, int n_threads, Body body, Interrupt* interrupt = nullptr) {
  n_threads = static_cast<int>(std::min<int64_t>(n_threads, n_blocks));
  if (n_threads <= 1) {
    for (int64_t block = 0; block < n_blocks && !interrupted(interrupt); ++block) run_block(body, block);
    return;
  }
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  auto work = [&](bool polls) {
    try {
      for (int64_t block = next++; block < n_blocks; block = next++) {
        if (failed || (interrupt && (polls ? interrupted(interrupt) : interrupt->raised.load()))) return;
        run_block(body, block);
      }
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int t = 1; t < n_threads; ++t) threads.emplace_back(work, false);
  } catch (...) {  // no more threads available: the started threads and this one do the work
  }
  work(true);
  for (auto& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failure);
}

}  // namespace SB_ISA
}  // namespace softboost
