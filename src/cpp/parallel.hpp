// The one loop that starts threads. Work is cut into blocks whose number does not depend on the number of threads,
// and each block writes only to its own place, so results are the same bits for every thread count.
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

// Asks whether to stop; to be called by the thread that called the kernel.
inline bool interrupted(Interrupt* interrupt) {
  if (interrupt == nullptr) return false;
  if (!interrupt->raised && interrupt->poll()) interrupt->raised = true;
  return interrupt->raised;
}

// One compiled copy of the body: inlined into the loops below it could be vectorised in two ways, and its sums would
// differ in the last bit between one thread and several.
template <typename Body>
SB_NOINLINE void run_block(Body& body, int64_t block) {
  body(block);
}

// The caller's thread takes part, and polls for an interrupt between blocks. What a block throws (no memory left) is
// thrown again here.
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
  } catch (...) {  // no more threads to be had: those that started, and this one, do the work
  }
  work(true);
  for (auto& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failure);
}

}  // namespace SB_ISA
}  // namespace softboost
