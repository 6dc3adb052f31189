// Shared by the bindings: array types, the table of kernels in use, and handling of Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace softboost {

namespace nb = nanobind;
using namespace nb::literals;

template <typename T>
using In1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using In3 = nb::ndarray<const T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Mutable = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<nb::numpy, T>;

extern const KernelTable* current_table;  // defined in bind_instruction_sets.cpp

template <typename T>
const Kernels<T>& kernels() {
  if constexpr (std::is_same_v<T, float>)
    return current_table->f32;
  else
    return current_table->f64;
}

template <typename T>
Out<T> array(std::vector<T>&& values, std::initializer_list<size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(owned->data(), shape, owner);
}

template <typename T>
const T* pointer(const std::optional<In1<T>>& a) {
  return a ? a->data() : nullptr;
}

inline int64_t size(size_t n) { return static_cast<int64_t>(n); }

// Polls Python for a pending Ctrl-C, at most twenty times a second; the exception is stored in the thread state.
inline bool poll_signals() {
  using clock = std::chrono::steady_clock;
  thread_local clock::time_point next{};
#if defined(CLOCK_MONOTONIC_COARSE)  // a few milliseconds are precise enough, and small kernels poll often
  timespec coarse;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const clock::time_point now{std::chrono::duration_cast<clock::duration>(std::chrono::seconds(coarse.tv_sec) +
                                                                          std::chrono::nanoseconds(coarse.tv_nsec))};
#else
  const auto now = clock::now();
#endif
  if (now < next) return false;
  next = now + std::chrono::milliseconds(50);
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the GIL; Ctrl-C stops the kernel and raises the exception.
template <typename Kernel>
void run_interruptibly(Kernel kernel) {
  Interrupt interrupt;
  interrupt.poll = &poll_signals;
  {
    nb::gil_scoped_release release;
    kernel(&interrupt);
  }
  if (interrupt.raised) throw nb::python_error();
}

// One function per topic, defined in bind_<topic>.cpp.
void bind_settings(nb::module_& m);
void bind_soft_tree(nb::module_& m);
void bind_fit(nb::module_& m);
void bind_forest(nb::module_& m);
void bind_linear(nb::module_& m);
void bind_many(nb::module_& m);
void bind_ensemble(nb::module_& m);
void bind_solvers(nb::module_& m);
void bind_recurrent(nb::module_& m);
void bind_network(nb::module_& m);
void bind_smoothing(nb::module_& m);
void bind_instruction_sets(nb::module_& m);

}  // namespace softboost
