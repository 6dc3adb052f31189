// Hard trees: a forest of extremely randomised trees, and the output of any hard trees.
#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
void register_forest(nb::module_& m) {
  m.def(
      "grow_forest",
      [](In2<T> columns, In2<T> target, std::optional<In1<T>> weight, int n_trees, int n_threads) {
        HardTreeArrays forest;
        const size_t n_outputs = target.shape(0);
        run_interruptibly([&](Interrupt* interrupt) {
          kernels<T>().grow_forest(columns.data(), target.data(), pointer(weight), size(columns.shape(0)),
                                   size(columns.shape(1)), size(n_outputs), n_trees, n_threads, interrupt, forest);
        });
        const size_t n_nodes = forest.feature.size(), n_roots = forest.roots.size();
        return nb::make_tuple(
            array(std::move(forest.feature), {n_nodes}), array(std::move(forest.threshold), {n_nodes}),
            array(std::move(forest.left), {n_nodes}), array(std::move(forest.right), {n_nodes}),
            array(std::move(forest.values), {n_nodes, n_outputs}), array(std::move(forest.roots), {n_roots}));
      },
      "columns"_a.noconvert(), "target"_a.noconvert(), "weight"_a.noconvert().none(), "n_trees"_a, "n_threads"_a);
  m.def(
      "hard_tree_output",
      [](In2<T> z, In1<int32_t> feature, In1<double> threshold, In1<int32_t> left, In1<int32_t> right,
         In2<double> values, In1<int32_t> roots, bool single, int n_threads) {
        const size_t n = z.shape(1), n_outputs = values.shape(1);
        std::vector<T> out(n_outputs * n);
        const HardTreeView tree{size(roots.size()), size(n_outputs), single,           feature.data(), left.data(),
                                right.data(),       roots.data(),    threshold.data(), values.data()};
        {
          nb::gil_scoped_release release;
          kernels<T>().hard_tree_output(tree, z.data(), size(z.shape(0)), size(n), n_threads, out.data());
        }
        return array(std::move(out), {n_outputs, n});
      },
      "z"_a.noconvert(), "feature"_a, "threshold"_a, "left"_a, "right"_a, "values"_a, "roots"_a, "single"_a,
      "n_threads"_a);
}

}  // namespace

void bind_forest(nb::module_& m) {
  register_forest<float>(m);
  register_forest<double>(m);
}

}  // namespace softboost
