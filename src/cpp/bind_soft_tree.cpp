// One soft tree: leaf probabilities, output and gradients.
#include "bindings.hpp"

namespace softboost {

namespace {

template <typename T>
TreeView<const T> view(int depth, const In2<T>& z, const In2<T>& gate_weights, const In1<T>& gate_bias,
                       const In2<T>& leaf_values, const std::optional<In3<T>>& leaf_weights) {
  return {depth,
          size(z.shape(0)),
          size(leaf_values.shape(1)),
          gate_weights.data(),
          gate_bias.data(),
          leaf_values.data(),
          leaf_weights ? leaf_weights->data() : nullptr};
}

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
        const auto tree = view<T>(depth, z, gate_weights, gate_bias, leaf_values, leaf_weights);
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
        const auto tree = view<T>(depth, z, gate_weights, gate_bias, leaf_values, leaf_weights);
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

}  // namespace

void bind_soft_tree(nb::module_& m) {
  register_soft_tree<float>(m);
  register_soft_tree<double>(m);
}

}  // namespace softboost
