// The map of the extension `softboost._core`: arrays in, arrays out. Shapes of the fitting functions are checked by
// the only caller, _kernels.py; Ensemble checks everything itself, because what it holds may come from a file.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <stdexcept>

#include "kernels.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using softboost::KernelTable;

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

std::vector<const KernelTable*> available_tables() {
  std::vector<const KernelTable*> tables{&softboost::baseline::kernel_table()};
#ifdef SB_X86_DISPATCH
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    tables.push_back(&softboost::avx2::kernel_table());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    tables.push_back(&softboost::avx512::kernel_table());
#endif
  return tables;
}

const KernelTable* current_table = available_tables().back();

template <typename T>
const softboost::Kernels<T>& kernels();
template <>
const softboost::Kernels<float>& kernels<float>() {
  return current_table->f32;
}
template <>
const softboost::Kernels<double>& kernels<double>() {
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

int64_t size(size_t n) { return static_cast<int64_t>(n); }

template <typename T>
struct Bins {
  std::vector<uint8_t> bins;
  std::vector<int32_t> count;
  std::vector<T> threshold;
  std::vector<int32_t> order;  // empty where there are too many rows
  int64_t n_columns, n_samples;

  softboost::BinnedColumns<T> view() const {
    return {bins.data(), count.data(), threshold.data(), order.empty() ? nullptr : order.data(), n_columns, n_samples};
  }
};

template <typename T>
softboost::TreePointers<T> tree_view(int depth, size_t n_components, size_t n_outputs, const T* gate_weights,
                                     const T* gate_bias, const T* leaf_values, const T* leaf_weights) {
  // the kernels that take a view from here only read it
  return {depth,
          size(n_components),
          size(n_outputs),
          const_cast<T*>(gate_weights),
          const_cast<T*>(gate_bias),
          const_cast<T*>(leaf_values),
          const_cast<T*>(leaf_weights)};
}

// Polls Python for a pending Ctrl-C, at most twenty times a second; the exception then waits in this thread's state.
bool poll_signals() {
  using clock = std::chrono::steady_clock;
  thread_local clock::time_point next{};
  const auto now = clock::now();
  if (now < next) return false;
  next = now + std::chrono::milliseconds(50);
  nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// Runs a kernel without the GIL; a Ctrl-C meanwhile ends it and is raised.
template <typename Kernel>
void run_interruptibly(Kernel kernel) {
  softboost::Interrupt interrupt;
  interrupt.poll = &poll_signals;
  {
    nb::gil_scoped_release release;
    kernel(&interrupt);
  }
  if (interrupt.raised) throw nb::python_error();
}

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

// The arrays of a whole fitted model, checked once and kept, so that predicting passes one array in.
template <typename T>
class PackedEnsemble {
 public:
  PackedEnsemble(In1<T> offset, In1<T> scale, In1<T> low, In1<T> high, In1<T> intercept, In2<T> coefficients,
                 In1<int32_t> depth, In1<uint8_t> linear, In1<int64_t> n_columns, In1<int32_t> columns,
                 In1<T> gate_weights, In1<T> gate_bias, In1<T> leaf)
      : offset_(copy(offset)), scale_(copy(scale)), low_(copy(low)), high_(copy(high)), intercept_(copy(intercept)),
        coefficients_(coefficients.data(), coefficients.data() + coefficients.size()), depth_(copy(depth)),
        linear_(copy(linear)), columns_(copy(columns)), gate_weights_(copy(gate_weights)), gate_bias_(copy(gate_bias)),
        leaf_(copy(leaf)) {
    const int64_t n_inputs = size(offset_.size()), n_outputs = size(intercept_.size()), n_trees = size(depth_.size());
    require(n_inputs > 0 && n_outputs > 0, "ensemble: no inputs or no outputs");
    require(size(scale_.size()) == n_inputs, "ensemble: scale has another length than offset");
    require(size(low_.size()) == n_inputs && size(high_.size()) == n_inputs,
            "ensemble: one lower and one upper limit per input");
    require(size(coefficients.shape(0)) == n_outputs && size(coefficients.shape(1)) == n_inputs,
            "ensemble: coefficients must have shape (n_outputs, n_inputs)");
    require(size(linear_.size()) == n_trees && size(n_columns.size()) == n_trees,
            "ensemble: one depth, one linear flag and one column count per tree");
    column_start_.assign(1, 0);
    weight_start_.assign(1, 0);
    bias_start_.assign(1, 0);
    leaf_start_.assign(1, 0);
    for (int64_t k = 0; k < n_trees; ++k) {
      require(depth_[k] >= 1 && depth_[k] <= 12, "ensemble: depth outside 1 to 12");
      const int64_t width = n_columns.data()[k], leaves = int64_t{1} << depth_[k];
      require(width >= 0 && width <= n_inputs, "ensemble: more columns than inputs");
      column_start_.push_back(column_start_.back() + width);
      weight_start_.push_back(weight_start_.back() + (leaves - 1) * width);
      bias_start_.push_back(bias_start_.back() + leaves - 1);
      leaf_start_.push_back(leaf_start_.back() + leaves * n_outputs * (linear_[k] ? 1 + width : 1));
    }
    require(column_start_.back() == size(columns_.size()), "ensemble: columns has the wrong length");
    require(weight_start_.back() == size(gate_weights_.size()), "ensemble: gate_weights has the wrong length");
    require(bias_start_.back() == size(gate_bias_.size()), "ensemble: gate_bias has the wrong length");
    require(leaf_start_.back() == size(leaf_.size()), "ensemble: leaf has the wrong length");
    for (int32_t j : columns_) require(j >= 0 && j < n_inputs, "ensemble: column index out of range");
    view_ = {n_inputs,
             n_outputs,
             n_trees,
             offset_.data(),
             scale_.data(),
             low_.data(),
             high_.data(),
             intercept_.data(),
             coefficients_.data(),
             depth_.data(),
             linear_.data(),
             column_start_.data(),
             columns_.data(),
             weight_start_.data(),
             gate_weights_.data(),
             bias_start_.data(),
             gate_bias_.data(),
             leaf_start_.data(),
             leaf_.data()};
  }
  PackedEnsemble(const PackedEnsemble&) = delete;  // view_ points into this object

  Out<T> predict(In2<T> rows, int n_threads) const {
    check(rows);
    std::vector<T> out(rows.shape(0) * static_cast<size_t>(view_.n_outputs));
    {
      nb::gil_scoped_release release;
      kernels<T>().predict(view_, rows.data(), size(rows.shape(0)), n_threads, out.data());
    }
    return array(std::move(out), {rows.shape(0), static_cast<size_t>(view_.n_outputs)});
  }

  Out<double> column_effects(In2<T> rows, std::optional<In1<T>> weight, int n_threads) const {
    check(rows);
    require(!weight || weight->shape(0) == rows.shape(0), "ensemble: one weight for each row");
    std::vector<double> out(static_cast<size_t>(view_.n_inputs));
    {
      nb::gil_scoped_release release;
      kernels<T>().column_effects(view_, rows.data(), pointer(weight), size(rows.shape(0)), n_threads, out.data());
    }
    return array(std::move(out), {static_cast<size_t>(view_.n_inputs)});
  }

  Out<T> predict_each(In2<T> rows, int n_threads) const {
    check(rows);
    const size_t n_trees = static_cast<size_t>(view_.n_trees), n_outputs = static_cast<size_t>(view_.n_outputs);
    std::vector<T> out(n_trees * rows.shape(0) * n_outputs);
    {
      nb::gil_scoped_release release;
      kernels<T>().predict_each(view_, rows.data(), size(rows.shape(0)), n_threads, out.data());
    }
    return array(std::move(out), {n_trees, rows.shape(0), n_outputs});
  }

 private:
  template <typename U>
  static std::vector<U> copy(const In1<U>& a) {
    return std::vector<U>(a.data(), a.data() + a.size());
  }
  void check(const In2<T>& rows) const {
    require(size(rows.shape(1)) == view_.n_inputs, "ensemble: rows have another number of columns than the model");
  }

  std::vector<T> offset_, scale_, low_, high_, intercept_, coefficients_;
  std::vector<int32_t> depth_;
  std::vector<uint8_t> linear_;
  std::vector<int32_t> columns_;
  std::vector<T> gate_weights_, gate_bias_, leaf_;
  std::vector<int64_t> column_start_, weight_start_, bias_start_, leaf_start_;
  softboost::Ensemble<T> view_{};
};

template <typename T>
void register_soft_tree(nb::module_& m) {
  m.def(
      "leaf_probabilities",
      [](In2<T> z, In2<T> gate_weights, In1<T> gate_bias, int depth, int n_threads) {
        const size_t n_leaves = size_t{1} << depth, n = z.shape(1);
        std::vector<T> out(n_leaves * n);
        {
          nb::gil_scoped_release release;
          kernels<T>().leaf_probabilities(z.data(), gate_weights.data(), gate_bias.data(), size(n), size(z.shape(0)),
                                          depth, n_threads, out.data());
        }
        return array(std::move(out), {n_leaves, n});
      },
      "z"_a.noconvert(), "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(), "depth"_a, "n_threads"_a);
  m.def(
      "tree_output",
      [](In2<T> z, int depth, In2<T> gate_weights, In1<T> gate_bias, In2<T> leaf_values,
         std::optional<In3<T>> leaf_weights, int n_threads) {
        const size_t n = z.shape(1), n_outputs = leaf_values.shape(1);
        std::vector<T> out(n_outputs * n);
        const auto tree = tree_view<T>(depth, z.shape(0), n_outputs, gate_weights.data(), gate_bias.data(),
                                       leaf_values.data(), leaf_weights ? leaf_weights->data() : nullptr);
        {
          nb::gil_scoped_release release;
          kernels<T>().tree_output(tree, z.data(), size(n), n_threads, out.data());
        }
        return array(std::move(out), {n_outputs, n});
      },
      "z"_a.noconvert(), "depth"_a, "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(),
      "leaf_values"_a.noconvert(), "leaf_weights"_a.noconvert().none(), "n_threads"_a);
  m.def(
      "tree_gradients",
      [](In2<T> z, int depth, In2<T> gate_weights, In1<T> gate_bias, In2<T> leaf_values,
         std::optional<In3<T>> leaf_weights, In2<T> grad_output, int n_threads) {
        const size_t m_ = z.shape(0), n = z.shape(1), n_outputs = leaf_values.shape(1);
        const size_t n_leaves = size_t{1} << depth, n_nodes = n_leaves - 1;
        std::vector<T> gw(n_nodes * m_), gb(n_nodes), gl(n_leaves * n_outputs),
            gs(leaf_weights ? n_leaves * n_outputs * m_ : 0), gz(m_ * n);
        const auto tree = tree_view<T>(depth, m_, n_outputs, gate_weights.data(), gate_bias.data(), leaf_values.data(),
                                       leaf_weights ? leaf_weights->data() : nullptr);
        {
          nb::gil_scoped_release release;
          kernels<T>().tree_gradients(tree, z.data(), grad_output.data(), size(n), n_threads, gw.data(), gb.data(),
                                      gl.data(), gs.data(), gz.data());
        }
        nb::object slopes = nb::none();
        if (leaf_weights) slopes = nb::cast(array(std::move(gs), {n_leaves, n_outputs, m_}));
        return nb::make_tuple(array(std::move(gw), {n_nodes, m_}), array(std::move(gb), {n_nodes}),
                              array(std::move(gl), {n_leaves, n_outputs}), slopes, array(std::move(gz), {m_, n}));
      },
      "z"_a.noconvert(), "depth"_a, "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(),
      "leaf_values"_a.noconvert(), "leaf_weights"_a.noconvert().none(), "grad_output"_a.noconvert(), "n_threads"_a);
}

template <typename T>
void register_fit(nb::module_& m, const char* bins_name) {
  nb::class_<Bins<T>>(m, bins_name)
      .def_prop_ro("shape", [](const Bins<T>& b) { return nb::make_tuple(b.n_columns, b.n_samples); })
      .def_prop_ro(
          "bins",
          [](const Bins<T>& b) {
            return array(std::vector<uint8_t>(b.bins),
                         {static_cast<size_t>(b.n_columns), static_cast<size_t>(b.n_samples)});
          },
          nb::rv_policy::move)
      .def_prop_ro(
          "count", [](const Bins<T>& b) { return array(std::vector<int32_t>(b.count), {b.count.size()}); },
          nb::rv_policy::move)
      .def_prop_ro(
          "threshold",
          [](const Bins<T>& b) {
            return array(std::vector<T>(b.threshold), {static_cast<size_t>(b.n_columns), size_t{softboost::kMaxBins}});
          },
          nb::rv_policy::move);
  m.def(
      "bin_columns",
      [](In2<T> columns, int max_bins, int n_threads) {
        Bins<T> out;
        out.n_columns = size(columns.shape(0));
        out.n_samples = size(columns.shape(1));
        out.bins.resize(columns.size());
        out.count.resize(columns.shape(0));
        out.threshold.resize(columns.shape(0) * softboost::kMaxBins);
        if (out.n_samples <= softboost::kMaxSorted) out.order.resize(columns.size());
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          kernels<T>().bin_columns(columns.data(), out.n_columns, out.n_samples, max_bins, n_threads, interrupt,
                                   out.bins.data(), out.count.data(), out.threshold.data(),
                                   out.order.empty() ? nullptr : out.order.data());
        });
        return out;
      },
      "columns"_a.noconvert(), "max_bins"_a, "n_threads"_a);
  m.def(
      "fit_greedy",
      [](In2<T> columns, const Bins<T>& bins, In2<T> target, std::optional<In1<T>> weight,
         const softboost::GreedySettings& settings, int n_threads) {
        softboost::TreeArrays<T> tree;
        const size_t n_outputs = target.shape(0), n = target.shape(1);
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          kernels<T>().fit_greedy(columns.data(), bins.view(), target.data(), pointer(weight), size(n_outputs),
                                  settings, n_threads, interrupt, tree);
        });
        const size_t n_leaves = size_t{1} << tree.depth, n_used = tree.columns.size();
        nb::object slopes = nb::none();
        if (settings.linear_leaves)
          slopes = nb::cast(array(std::move(tree.leaf_weights), {n_leaves, n_outputs, n_used}));
        const size_t n_gain = tree.gain.size();
        return nb::make_tuple(tree.depth, array(std::move(tree.columns), {n_used}),
                              array(std::move(tree.gate_weights), {n_leaves - 1, n_used}),
                              array(std::move(tree.gate_bias), {n_leaves - 1}),
                              array(std::move(tree.leaf_values), {n_leaves, n_outputs}), slopes,
                              array(std::move(tree.output), {n_outputs, n}), array(std::move(tree.gain), {n_gain}),
                              tree.leave_one_out);
      },
      "columns"_a.noconvert(), "bins"_a, "target"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a,
      "n_threads"_a);
  m.def(
      "boost_greedy",
      [](In2<T> columns, const Bins<T>& bins, In2<T> y, std::optional<In1<T>> weight,
         const softboost::GreedySettings& settings, int n_rounds, double learning_rate, Mutable<T> prediction,
         int n_threads) {
        std::vector<softboost::TreeArrays<T>> trees;
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          kernels<T>().boost_greedy(columns.data(), bins.view(), y.data(), pointer(weight), size(y.shape(0)), settings,
                                    n_rounds, learning_rate, n_threads, interrupt, prediction.data(), trees);
        });
        std::vector<int32_t> depth, used;
        std::vector<int64_t> n_columns;
        std::vector<T> gate_weights, gate_bias, leaf;
        auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        for (const softboost::TreeArrays<T>& tree : trees) {
          depth.push_back(tree.depth);
          n_columns.push_back(size(tree.columns.size()));
          append(used, tree.columns);
          append(gate_weights, tree.gate_weights);
          append(gate_bias, tree.gate_bias);
          append(leaf, tree.leaf_values);
          append(leaf, tree.leaf_weights);
        }
        const size_t n_trees = depth.size(), n_used = used.size(), n_gates = gate_weights.size(),
                     n_biases = gate_bias.size(), n_leaf = leaf.size();
        return nb::make_tuple(array(std::move(depth), {n_trees}), array(std::move(n_columns), {n_trees}),
                              array(std::move(used), {n_used}), array(std::move(gate_weights), {n_gates}),
                              array(std::move(gate_bias), {n_biases}), array(std::move(leaf), {n_leaf}));
      },
      "columns"_a.noconvert(), "bins"_a, "y"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a, "n_rounds"_a,
      "learning_rate"_a, "prediction"_a.noconvert(), "n_threads"_a);
  m.def(
      "fit_joint",
      [](In2<T> x, In2<T> target, std::optional<In1<T>> weight, const softboost::JointSettings& settings, int depth,
         int n_components, Mutable<T> q, Mutable<T> gate_weights, Mutable<T> gate_bias, Mutable<T> leaf_values,
         std::optional<Mutable<T>> leaf_weights, int n_threads) {
        const size_t n_outputs = target.shape(0), n = target.shape(1);
        std::vector<T> output(n_outputs * n);
        std::vector<double> trace(static_cast<size_t>(settings.n_steps) + 1);
        const softboost::TreePointers<T> tree{depth,
                                              n_components,
                                              size(n_outputs),
                                              gate_weights.data(),
                                              gate_bias.data(),
                                              leaf_values.data(),
                                              leaf_weights ? leaf_weights->data() : nullptr};
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          kernels<T>().fit_joint(x.data(), target.data(), pointer(weight), size(x.shape(0)), size(n), settings,
                                 n_threads, interrupt, tree, q.data(), output.data(), trace.data());
        });
        const size_t n_trace = trace.size();
        return nb::make_tuple(array(std::move(output), {n_outputs, n}), array(std::move(trace), {n_trace}));
      },
      "x"_a.noconvert(), "target"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a, "depth"_a,
      "n_components"_a, "q"_a.noconvert(), "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(),
      "leaf_values"_a.noconvert(), "leaf_weights"_a.noconvert().none(), "n_threads"_a);
}

template <typename T>
void register_linear(nb::module_& m) {
  m.def(
      "moments",
      [](In2<T> x, In2<T> y, std::optional<In1<T>> weight, bool centred, int n_threads) {
        const size_t d = x.shape(0), o = y.shape(0);
        const int64_t n = size(x.shape(1));
        std::vector<double> mean_x(d), mean_y(o), gram(d * d), cross(o * d);
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          if (centred) {
            kernels<T>().weighted_means(x.data(), pointer(weight), size(d), n, n_threads, mean_x.data());
            kernels<T>().weighted_means(y.data(), pointer(weight), size(o), n, n_threads, mean_y.data());
          }
          kernels<T>().moments(x.data(), y.data(), pointer(weight), size(d), size(o), n, mean_x.data(), mean_y.data(),
                               n_threads, interrupt, gram.data(), cross.data());
        });
        return nb::make_tuple(array(std::move(mean_x), {d}), array(std::move(mean_y), {o}),
                              array(std::move(gram), {d, d}), array(std::move(cross), {o, d}));
      },
      "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(), "centred"_a, "n_threads"_a);
  m.def(
      "linear_outputs",
      [](In2<double> coefficients, In1<double> intercepts, In2<T> x, int n_threads) {
        const size_t p = coefficients.shape(0), n = x.shape(1);
        std::vector<double> out(p * n);
        {
          nb::gil_scoped_release release;
          kernels<T>().linear_outputs(coefficients.data(), intercepts.data(), size(p), x.data(), size(x.shape(0)),
                                      size(n), n_threads, out.data());
        }
        return array(std::move(out), {p, n});
      },
      "coefficients"_a.noconvert(), "intercepts"_a.noconvert(), "x"_a.noconvert(), "n_threads"_a);
}

template <typename T>
void register_predict(nb::module_& m, const char* name) {
  nb::class_<PackedEnsemble<T>>(m, name)
      .def(nb::init<In1<T>, In1<T>, In1<T>, In1<T>, In1<T>, In2<T>, In1<int32_t>, In1<uint8_t>, In1<int64_t>,
                    In1<int32_t>, In1<T>, In1<T>, In1<T>>(),
           "offset"_a, "scale"_a, "low"_a, "high"_a, "intercept"_a, "coefficients"_a, "depth"_a, "linear"_a,
           "n_columns"_a, "columns"_a, "gate_weights"_a, "gate_bias"_a, "leaf"_a)
      .def("predict", &PackedEnsemble<T>::predict, "rows"_a.noconvert(), "n_threads"_a)
      .def("predict_each", &PackedEnsemble<T>::predict_each, "rows"_a.noconvert(), "n_threads"_a)
      .def("column_effects", &PackedEnsemble<T>::column_effects, "rows"_a.noconvert(), "weight"_a.noconvert().none(),
           "n_threads"_a);
}

void register_settings(nb::module_& m) {
  using softboost::GreedySettings;
  using softboost::JointSettings;
  nb::class_<GreedySettings>(m, "GreedySettings")
      .def(nb::init<>())
      .def_rw("depth", &GreedySettings::depth)
      .def_rw("shallower", &GreedySettings::shallower)
      .def_rw("sharpness", &GreedySettings::sharpness)
      .def_rw("ridge", &GreedySettings::ridge)
      .def_rw("linear_leaves", &GreedySettings::linear_leaves)
      .def_rw("n_extra_columns", &GreedySettings::n_extra_columns)
      .def_rw("detrended_candidate", &GreedySettings::detrended_candidate)
      .def_rw("min_leaf_weight", &GreedySettings::min_leaf_weight)
      .def_rw("n_selection_rows", &GreedySettings::n_selection_rows);
  nb::enum_<softboost::TransformKind>(m, "TransformKind")
      .value("identity", softboost::TransformKind::identity)
      .value("diagonal", softboost::TransformKind::diagonal)
      .value("linear", softboost::TransformKind::linear);
  nb::class_<JointSettings>(m, "JointSettings")
      .def(nb::init<>())
      .def_rw("transform", &JointSettings::transform)
      .def_rw("solve_leaves", &JointSettings::solve_leaves)
      .def_rw("learn_gates", &JointSettings::learn_gates)
      .def_rw("learn_transform", &JointSettings::learn_transform)
      .def_rw("n_steps", &JointSettings::n_steps)
      .def_rw("gate_learning_rate", &JointSettings::gate_learning_rate)
      .def_rw("leaf_learning_rate", &JointSettings::leaf_learning_rate)
      .def_rw("transform_learning_rate", &JointSettings::transform_learning_rate)
      .def_rw("ridge", &JointSettings::ridge)
      .def_rw("weight_decay", &JointSettings::weight_decay)
      .def_rw("group_lasso", &JointSettings::group_lasso)
      .def_rw("cosine_decay", &JointSettings::cosine_decay);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "Compiled kernels of softboost; use softboost._kernels instead.";
  nb::set_leak_warnings(false);  // a model held by a global at exit is no leak worth a page on stderr
  register_settings(m);
  register_soft_tree<float>(m);
  register_soft_tree<double>(m);
  register_fit<float>(m, "Bins32");
  register_fit<double>(m, "Bins64");
  register_linear<float>(m);
  register_linear<double>(m);
  register_predict<float>(m, "Ensemble32");
  register_predict<double>(m, "Ensemble64");
  m.def(
      "lasso_path",
      [](In2<double> gram, In1<double> cross, In1<double> penalties, double tolerance, int64_t max_sweeps) {
        std::vector<double> out(penalties.size() * cross.size());
        {
          nb::gil_scoped_release release;
          current_table->lasso_path(gram.data(), cross.data(), size(cross.size()), penalties.data(),
                                    size(penalties.size()), tolerance, max_sweeps, out.data());
        }
        return array(std::move(out), {penalties.size(), cross.size()});
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "penalties"_a.noconvert(), "tolerance"_a, "max_sweeps"_a);
  m.def(
      "ridge_path",
      [](In2<double> gram, In2<double> cross, In1<double> penalties) {
        const size_t d = gram.shape(0), o = cross.shape(0), l = penalties.size();
        std::vector<double> out(l * o * d), log_determinants(l);
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          current_table->ridge_path(gram.data(), cross.data(), size(d), size(o), penalties.data(), size(l), interrupt,
                                    out.data(), log_determinants.data());
        });
        return nb::make_tuple(array(std::move(out), {l, o, d}), array(std::move(log_determinants), {l}));
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "penalties"_a.noconvert());
  m.def(
      "relaxed_path",
      [](In2<double> gram, In1<double> cross, In2<double> path, double limit, double ridge) {
        std::vector<double> out(path.size(), 0.0);
        {
          nb::gil_scoped_release release;
          current_table->relaxed_path(gram.data(), cross.data(), size(cross.size()), path.data(), size(path.shape(0)),
                                      limit, ridge, out.data());
        }
        return array(std::move(out), {path.shape(0), path.shape(1)});
      },
      "gram"_a.noconvert(), "cross"_a.noconvert(), "path"_a.noconvert(), "limit"_a, "ridge"_a);
  m.def(
      "rls_update",
      [](Mutable<double> covariance, In1<double> basis, double gap) {
        std::vector<double> gain(basis.size());
        double variance;
        {
          nb::gil_scoped_release release;
          variance = current_table->rls_update(covariance.data(), basis.data(), size(basis.size()), gap, gain.data());
        }
        return nb::make_tuple(array(std::move(gain), {basis.size()}), variance);
      },
      "covariance"_a.noconvert(), "basis"_a.noconvert(), "gap"_a);
  m.def(
      "solve_with_inverse",
      [](In2<double> gram, In1<double> cross) {
        const size_t n = cross.size();
        std::vector<double> coefficients(n), covariance(n * n);
        run_interruptibly([&](softboost::Interrupt* interrupt) {
          current_table->solve_with_inverse(gram.data(), cross.data(), size(n), interrupt, coefficients.data(),
                                            covariance.data());
        });
        return nb::make_tuple(array(std::move(coefficients), {n}), array(std::move(covariance), {n, n}));
      },
      "gram"_a.noconvert(), "cross"_a.noconvert());
  m.def("instruction_sets", []() {
    std::vector<std::string> names;
    for (const KernelTable* table : available_tables()) names.emplace_back(table->instruction_set);
    return names;
  });
  m.def("instruction_set", []() { return std::string(current_table->instruction_set); });
  m.def(
      "use_instruction_set",
      [](const std::string& name) {
        for (const KernelTable* table : available_tables())
          if (name == table->instruction_set) {
            current_table = table;
            return;
          }
        throw nb::value_error("this processor or build has no such instruction set");
      },
      "name"_a);
}
