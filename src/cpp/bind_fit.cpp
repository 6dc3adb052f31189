// Fitting: bins, one greedy tree, boosting with greedy trees, and joint steps on a tree and its transform.
#include <algorithm>

#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
struct Bins {
  std::vector<uint8_t> bins;
  std::vector<int32_t> count;
  std::vector<T> threshold;
  std::vector<int32_t> order;  // empty if there are too many rows
  int64_t n_columns, n_samples;

  // the bins of some of the columns
  Bins take(const int32_t* columns, size_t n_taken) const {
    Bins out;
    out.n_columns = size(n_taken);
    out.n_samples = n_samples;
    for (size_t k = 0; k < n_taken; ++k) {
      const int64_t j = columns[k];
      const auto copy = [j](auto& to, const auto& from, int64_t n) {
        to.insert(to.end(), from.begin() + j * n, from.begin() + (j + 1) * n);
      };
      copy(out.bins, bins, n_samples);
      copy(out.threshold, threshold, kMaxBins);
      if (!order.empty()) copy(out.order, order, n_samples);
      out.count.push_back(count[static_cast<size_t>(j)]);
    }
    return out;
  }

  BinnedColumns<T> view() const {
    return {bins.data(), count.data(), threshold.data(), order.empty() ? nullptr : order.data(), n_columns, n_samples};
  }
};

template <typename T>
void register_fit(nb::module_& m, const char* bins_name) {
  nb::class_<Bins<T>>(m, bins_name)
      .def(
          "take",
          [](const Bins<T>& b, In1<int32_t> columns) {
            for (size_t k = 0; k < columns.size(); ++k)
              if (columns.data()[k] < 0 || columns.data()[k] >= b.n_columns) throw nb::index_error("no such column");
            return b.take(columns.data(), columns.size());
          },
          "columns"_a)
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
            return array(std::vector<T>(b.threshold), {static_cast<size_t>(b.n_columns), size_t{kMaxBins}});
          },
          nb::rv_policy::move);
  m.def(
      "bin_columns",
      [](In2<T> columns, std::optional<In1<T>> weight, int max_bins, int n_threads) {
        Bins<T> out;
        out.n_columns = size(columns.shape(0));
        out.n_samples = size(columns.shape(1));
        out.bins.resize(columns.size());
        out.count.resize(columns.shape(0));
        out.threshold.resize(columns.shape(0) * kMaxBins);
        if (out.n_samples <= kMaxSorted) out.order.resize(columns.size());
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().bin_columns(columns.data(), pointer(weight), out.n_columns, out.n_samples, max_bins, n_threads,
                                   interrupt, out.bins.data(), out.count.data(), out.threshold.data(),
                                   out.order.empty() ? nullptr : out.order.data());
        });
        return out;
      },
      "columns"_a.noconvert(), "weight"_a.noconvert().none(), "max_bins"_a, "n_threads"_a);
  m.def(
      "fit_greedy",
      [](In2<T> columns, const Bins<T>& bins, In2<T> target, std::optional<In1<T>> weight,
         const GreedySettings& settings, int n_threads) {
        TreeArrays<T> tree;
        const size_t n_outputs = target.shape(0), n = target.shape(1);
        run_interruptibly([&](Interrupt* interrupt) {
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
      [](In2<T> columns, const Bins<T>& bins, In2<T> y, std::optional<In1<T>> weight, const GreedySettings& settings,
         const LossSettings& loss, int n_rounds, double learning_rate, Mutable<T> prediction, int n_threads) {
        FlatTrees<T> trees;
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().boost_greedy(columns.data(), bins.view(), y.data(), pointer(weight), size(y.shape(0)), settings,
                                    loss, n_rounds, learning_rate, n_threads, interrupt, prediction.data(), trees);
        });
        const size_t n_trees = trees.depth.size(), n_used = trees.columns.size(), n_gates = trees.gate_weights.size(),
                     n_biases = trees.gate_bias.size(), n_leaf = trees.leaf.size();
        return nb::make_tuple(array(std::move(trees.depth), {n_trees}), array(std::move(trees.n_columns), {n_trees}),
                              array(std::move(trees.columns), {n_used}),
                              array(std::move(trees.gate_weights), {n_gates}),
                              array(std::move(trees.gate_bias), {n_biases}), array(std::move(trees.leaf), {n_leaf}));
      },
      "columns"_a.noconvert(), "bins"_a, "y"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a, "loss"_a,
      "n_rounds"_a, "learning_rate"_a, "prediction"_a.noconvert(), "n_threads"_a);
  m.def(
      "negative_gradient",
      [](const LossSettings& loss, In2<T> y, In2<T> raw) {
        std::vector<T> out(y.size());
        kernels<T>().negative_gradient(loss, y.data(), raw.data(), size(y.size()), out.data());
        return array(std::move(out), {y.shape(0), y.shape(1)});
      },
      "loss"_a, "y"_a.noconvert(), "raw"_a.noconvert());
  m.def(
      "refit_leaves",
      [](const LossSettings& loss, In2<T> z, int depth, In2<T> gate_weights, In1<T> gate_bias, bool linear, In2<T> y,
         In2<T> raw, std::optional<In1<T>> weight, int n_threads) {
        const size_t n_outputs = y.shape(0), n = y.shape(1), m = z.shape(0), n_leaves = size_t{1} << depth;
        std::vector<T> output(n_outputs * n), values(n_leaves * n_outputs),
            slopes(linear ? n_leaves * n_outputs * m : 0);
        std::vector<T> gates(gate_weights.data(), gate_weights.data() + gate_weights.size());
        std::vector<T> bias(gate_bias.data(), gate_bias.data() + gate_bias.size());
        const TreeView<T> tree{depth,
                               size(m),
                               size(n_outputs),
                               gates.data(),
                               bias.data(),
                               values.data(),
                               linear ? slopes.data() : nullptr};
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().refit_leaves(loss, tree, z.data(), y.data(), raw.data(), pointer(weight), size(n), n_threads,
                                    interrupt, output.data());
        });
        nb::object leaf_weights = nb::none();
        if (linear) leaf_weights = nb::cast(array(std::move(slopes), {n_leaves, n_outputs, m}));
        return nb::make_tuple(array(std::move(values), {n_leaves, n_outputs}), leaf_weights,
                              array(std::move(output), {n_outputs, n}));
      },
      "loss"_a, "z"_a.noconvert(), "depth"_a, "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(), "linear"_a,
      "y"_a.noconvert(), "raw"_a.noconvert(), "weight"_a.noconvert().none(), "n_threads"_a);
  m.def(
      "fit_joint",
      [](In2<T> x, In2<T> target, std::optional<In1<T>> weight, const JointSettings& settings, int depth,
         int n_components, Mutable<T> q, Mutable<T> gate_weights, Mutable<T> gate_bias, Mutable<T> leaf_values,
         std::optional<Mutable<T>> leaf_weights, int n_threads) {
        const size_t n_outputs = target.shape(0), n = target.shape(1);
        std::vector<T> output(n_outputs * n);
        std::vector<double> trace(static_cast<size_t>(settings.n_steps) + 1);
        const TreeView<T> tree{depth,
                               n_components,
                               size(n_outputs),
                               gate_weights.data(),
                               gate_bias.data(),
                               leaf_values.data(),
                               leaf_weights ? leaf_weights->data() : nullptr};
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().fit_joint(x.data(), target.data(), pointer(weight), size(x.shape(0)), size(n), settings,
                                 n_threads, interrupt, tree, q.data(), output.data(), trace.data());
        });
        const size_t n_trace = trace.size();
        return nb::make_tuple(array(std::move(output), {n_outputs, n}), array(std::move(trace), {n_trace}));
      },
      "x"_a.noconvert(), "target"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a, "depth"_a,
      "n_components"_a, "q"_a.noconvert(), "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(),
      "leaf_values"_a.noconvert(), "leaf_weights"_a.noconvert().none(), "n_threads"_a);
  m.def(
      "boost_joint",
      [](In2<T> x, In2<T> y, std::optional<In1<T>> weight, const JointSettings& settings, const LossSettings& loss,
         int depth, int n_components, bool linear, In1<T> first_q, int n_rounds, double learning_rate,
         Mutable<T> prediction, int n_threads) {
        const size_t rounds = static_cast<size_t>(n_rounds), n_outputs = y.shape(0), m = size_t(n_components),
                     n_leaves = size_t{1} << depth, n_nodes = n_leaves - 1, n_q = first_q.size();
        std::vector<T> q(rounds * n_q), gate_weights(rounds * n_nodes * m), gate_bias(rounds * n_nodes),
            values(rounds * n_leaves * n_outputs), slopes(linear ? values.size() * m : 0);
        std::copy_n(first_q.data(), rounds > 0 ? n_q : 0, q.begin());
        const TreeView<T> trees{depth,
                                size(m),
                                size(n_outputs),
                                gate_weights.data(),
                                gate_bias.data(),
                                values.data(),
                                linear ? slopes.data() : nullptr};
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().boost_joint(x.data(), y.data(), pointer(weight), size(x.shape(0)), size(x.shape(1)), settings,
                                   loss, n_rounds, learning_rate, n_threads, interrupt, trees, size(n_q), q.data(),
                                   prediction.data());
        });
        nb::object leaf_weights = nb::none();
        if (linear) leaf_weights = nb::cast(array(std::move(slopes), {rounds, n_leaves, n_outputs, m}));
        return nb::make_tuple(array(std::move(q), {rounds, n_q}), array(std::move(gate_weights), {rounds, n_nodes, m}),
                              array(std::move(gate_bias), {rounds, n_nodes}),
                              array(std::move(values), {rounds, n_leaves, n_outputs}), leaf_weights);
      },
      "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(), "settings"_a, "loss"_a, "depth"_a,
      "n_components"_a, "linear"_a, "first_q"_a.noconvert(), "n_rounds"_a, "learning_rate"_a,
      "prediction"_a.noconvert(), "n_threads"_a);
  m.def(
      "joint_outputs",
      [](In2<T> x, In3<T> q, In3<T> gate_weights, In2<T> gate_bias, In3<T> leaf_values,
         std::optional<Mutable<const T>> leaf_weights, double learning_rate, int n_threads) {
        const size_t n = x.shape(1), rounds = q.shape(0), n_outputs = leaf_values.shape(2);
        int depth = 0;
        while ((size_t{1} << depth) < leaf_values.shape(1)) ++depth;
        const TreeView<const T> trees{depth,
                                      size(q.shape(1)),
                                      size(n_outputs),
                                      gate_weights.data(),
                                      gate_bias.data(),
                                      leaf_values.data(),
                                      leaf_weights ? leaf_weights->data() : nullptr};
        std::vector<T> out(rounds * n_outputs * n);
        {
          nb::gil_scoped_release release;
          kernels<T>().joint_outputs(x.data(), size(x.shape(0)), size(n), size(rounds), learning_rate, n_threads, trees,
                                     q.data(), out.data());
        }
        return array(std::move(out), {rounds, n_outputs, n});
      },
      "x"_a.noconvert(), "q"_a.noconvert(), "gate_weights"_a.noconvert(), "gate_bias"_a.noconvert(),
      "leaf_values"_a.noconvert(), "leaf_weights"_a.noconvert().none(), "learning_rate"_a, "n_threads"_a);
}

}  // namespace

void bind_fit(nb::module_& m) {
  register_fit<float>(m, "Bins32");
  register_fit<double>(m, "Bins64");
}

}  // namespace softboost
