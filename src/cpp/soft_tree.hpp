// One dense soft tree on z: leaf probabilities, output, and the closed-form gradients of Section III of the paper.
//
// Arrays are stored feature-major: z is (n_components, n_samples), one contiguous row per component, so that all
// loops run over samples. Nodes are in heap order: the children of node k are 2k + 1 (left) and 2k + 2 (right).
#pragma once

#include "parallel.hpp"

namespace softboost {
namespace SB_ISA {

inline int64_t leaf_count(int depth) { return int64_t{1} << depth; }

template <typename T>
int64_t leaf_count(const TreeView<T>& tree) {
  return leaf_count(tree.depth);
}
template <typename T>
int64_t node_count(const TreeView<T>& tree) {
  return leaf_count(tree.depth) - 1;
}

// out[leaf] = product of the gate sides on the path to that leaf; rows of all three are `stride` apart.
// Works in place from one level to the next, last parent first, so a parent is read before it is overwritten.
template <typename T>
void leaf_memberships(const T* right, const T* left, int depth, int64_t stride, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = T(1);
  int64_t first_node = 0;
  for (int level = 0; level < depth; ++level) {
    const int64_t width = leaf_count(level);
    for (int64_t k = width - 1; k >= 0; --k) {
      const T* parent = out + k * stride;
      const T* go_right = right + (first_node + k) * stride;
      const T* go_left = left + (first_node + k) * stride;
      T* right_child = out + (2 * k + 1) * stride;
      T* left_child = out + 2 * k * stride;
      SB_SIMD
      for (int64_t i = 0; i < n; ++i) {
        const T reach = parent[i];
        right_child[i] = reach * go_right[i];
        left_child[i] = reach * go_left[i];
      }
    }
    first_node += width;
  }
}

// logits (n_nodes, stride) = gate_bias + gate_weights z, for rows [begin, begin + n) of z (n_components, z_stride)
template <typename T>
void gate_logits(const T* z, int64_t z_stride, const T* gate_weights, const T* gate_bias, int64_t n_nodes,
                 int64_t n_components, int64_t stride, int64_t n, T* logits) {
  for (int64_t node = 0; node < n_nodes; ++node) {
    T* out = logits + node * stride;
    const T bias = gate_bias[node];
    for (int64_t i = 0; i < n; ++i) out[i] = bias;
    for (int64_t a = 0; a < n_components; ++a) {
      const T weight = gate_weights[node * n_components + a];
      if (weight != T(0)) axpy(weight, z + a * z_stride, out, n);
    }
  }
}

// Scratch memory for one block of rows of one tree.
template <typename T>
struct TreeBlock {
  int64_t stride = 0;
  std::vector<T> right, left, memberships;

  TreeBlock() = default;
  TreeBlock(int depth, int64_t max_rows) { prepare(depth, max_rows); }

  void prepare(int depth, int64_t max_rows) {
    stride = round_up(max_rows, 16);
    right.resize(static_cast<size_t>((leaf_count(depth) - 1) * stride));
    left.resize(right.size());
    memberships.resize(static_cast<size_t>(leaf_count(depth) * stride));
  }

  void forward(const TreeView<const T>& tree, const T* z, int64_t z_stride, int64_t n) {
    gate_logits(z, z_stride, tree.gate_weights, tree.gate_bias, node_count(tree), tree.n_components, stride, n,
                right.data());
    forward_from_logits(tree.depth, n);
  }

  // Continues from the logits, which are in `right`.
  void forward_from_logits(int depth, int64_t n) {
    sigmoid_pair(right.data(), (leaf_count(depth) - 1) * stride, right.data(), left.data());
    leaf_memberships(right.data(), left.data(), depth, stride, n, memberships.data());
  }
};

// out (n_leaves, n_samples): the probability that each sample reaches each leaf
template <typename T>
void leaf_probabilities(const T* z, const T* gate_weights, const T* gate_bias, int64_t n_samples, int64_t n_components,
                        int depth, int n_threads, T* out) {
  const TreeView<const T> tree{depth, n_components, 0, gate_weights, gate_bias, nullptr, nullptr};
  parallel_for(block_count(n_samples), n_threads, [&](int64_t block) {
    const int64_t begin = block * kBlockRows, n = std::min(kBlockRows, n_samples - begin);
    TreeBlock<T> scratch(depth, n);
    scratch.forward(tree, z + begin, n_samples, n);
    for (int64_t leaf = 0; leaf < leaf_count(tree); ++leaf)
      std::copy_n(scratch.memberships.data() + leaf * scratch.stride, n, out + leaf * n_samples + begin);
  });
}

// value (n) of output o of one leaf at z: its constant plus its linear part
template <typename T>
inline void leaf_output(const TreeView<const T>& tree, int64_t leaf, int64_t o, const T* z, int64_t z_stride, int64_t n,
                        T* value) {
  const T constant = tree.leaf_values[leaf * tree.n_outputs + o];
  for (int64_t i = 0; i < n; ++i) value[i] = constant;
  if (tree.leaf_weights == nullptr) return;
  const T* weights = tree.leaf_weights + (leaf * tree.n_outputs + o) * tree.n_components;
  for (int64_t a = 0; a < tree.n_components; ++a)
    if (weights[a] != T(0)) axpy(weights[a], z + a * z_stride, value, n);
}

// Scratch memory of the output of trees, for callers with many small trees.
template <typename T>
struct OutputScratch {
  TreeBlock<T> block;
  std::vector<T> value;
};

// out (n_outputs, n_samples) = sum over leaves of membership * leaf output. A single block uses `given`, unless it is
// null.
template <typename T>
void tree_output(const TreeView<const T>& tree, const T* z, int64_t n_samples, int n_threads, T* out,
                 OutputScratch<T>* given) {
  parallel_for(block_count(n_samples), n_threads, [&](int64_t block) {
    const int64_t begin = block * kBlockRows, n = std::min(kBlockRows, n_samples - begin);
    OutputScratch<T> own, &memory = given && n_samples <= kBlockRows ? *given : own;
    TreeBlock<T>& scratch = memory.block;
    scratch.prepare(tree.depth, n);
    std::vector<T>& value = memory.value;
    value.resize(static_cast<size_t>(scratch.stride));
    scratch.forward(tree, z + begin, n_samples, n);
    for (int64_t o = 0; o < tree.n_outputs; ++o) {
      T* result = out + o * n_samples + begin;
      std::fill_n(result, n, T(0));
      for (int64_t leaf = 0; leaf < leaf_count(tree); ++leaf) {
        const T* reach = scratch.memberships.data() + leaf * scratch.stride;
        leaf_output(tree, leaf, o, z + begin, n_samples, n, value.data());
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) result[i] += reach[i] * value[i];
      }
    }
  });
}

template <typename T>
void tree_output(const TreeView<const T>& tree, const T* z, int64_t n_samples, int n_threads, T* out) {
  tree_output<T>(tree, z, n_samples, n_threads, out, nullptr);
}

// Gradients of sum(grad_output * output) for one block whose forward pass is in `scratch`, down to the logits of the
// gates. `values` (n_leaves, n_outputs, stride) are the outputs of the leaves. Writes grad_logit (n_nodes, stride) and
// adds to the gradients of the leaves, unless grad_leaf_values is null, and, through linear leaves, to grad_z, which
// may be null for constant leaves.
//
// With S_l = membership_l * <grad_output, leaf output_l>, the paper's double sum over leaves and path nodes
// collapses, node by node, to   d/dlogit_m = (1 - p_m) * sum_{l right of m} S_l - p_m * sum_{l left of m} S_l,
// which needs no division and stays exact when a gate saturates.
template <typename T>
void backward_to_logits(const TreeView<const T>& tree, const TreeBlock<T>& scratch, const T* z, int64_t z_stride,
                        const T* values, const T* grad_output, int64_t grad_stride, int64_t n, T* buffer, T* grad_logit,
                        T* grad_leaf_values, T* grad_leaf_weights, T* grad_z, int64_t grad_z_stride) {
  const int64_t stride = scratch.stride, n_leaves = leaf_count(tree), n_components = tree.n_components;
  T* score = buffer;  // (2 n_leaves - 1, stride): S of every subtree, heap order
  T* reach_grad = buffer + (2 * n_leaves - 1) * stride;
  for (int64_t leaf = 0; leaf < n_leaves; ++leaf) {
    T* sum = score + (n_leaves - 1 + leaf) * stride;
    const T* reach = scratch.memberships.data() + leaf * stride;
    std::fill_n(sum, n, T(0));
    for (int64_t o = 0; o < tree.n_outputs; ++o) {
      const T* upstream = grad_output + o * grad_stride;
      if (tree.leaf_weights == nullptr) {
        const T constant = tree.leaf_values[leaf * tree.n_outputs + o];
        T total = 0;
        SB_SIMD_SUM(total)
        for (int64_t i = 0; i < n; ++i) {
          const T g = reach[i] * upstream[i];
          sum[i] += g * constant;
          total += g;
        }
        if (grad_leaf_values) grad_leaf_values[leaf * tree.n_outputs + o] += total;
        continue;
      }
      const T* value = values + (leaf * tree.n_outputs + o) * stride;
      T total = 0;
      SB_SIMD_SUM(total)
      for (int64_t i = 0; i < n; ++i) {
        reach_grad[i] = reach[i] * upstream[i];
        sum[i] += reach_grad[i] * value[i];
        total += reach_grad[i];
      }
      if (grad_leaf_values) grad_leaf_values[leaf * tree.n_outputs + o] += total;
      const int64_t row = (leaf * tree.n_outputs + o) * n_components;
      for (int64_t a = 0; a < n_components; ++a) {
        if (grad_leaf_values) grad_leaf_weights[row + a] += dot(reach_grad, z + a * z_stride, n);
        if (tree.leaf_weights[row + a] != T(0))
          axpy(tree.leaf_weights[row + a], reach_grad, grad_z + a * grad_z_stride, n);
      }
    }
  }
  for (int64_t node = node_count(tree) - 1; node >= 0; --node) {
    const T* from_left = score + (2 * node + 1) * stride;
    const T* from_right = score + (2 * node + 2) * stride;
    const T* right = scratch.right.data() + node * stride;
    const T* left = scratch.left.data() + node * stride;
    T* sum = score + node * stride;
    T* out = grad_logit + node * stride;
    SB_SIMD
    for (int64_t i = 0; i < n; ++i) {
      out[i] = left[i] * from_right[i] - right[i] * from_left[i];
      sum[i] = from_left[i] + from_right[i];
    }
  }
}

// Continues from the gradient of the logits: adds to the gradients of gate weights, gate bias and z.
template <typename T>
void backward_from_logits(const TreeView<const T>& tree, const T* grad_logit, int64_t stride, const T* z,
                          int64_t z_stride, int64_t n, T* grad_gate_weights, T* grad_gate_bias, T* grad_z,
                          int64_t grad_z_stride) {
  for (int64_t node = 0; node < node_count(tree); ++node) {
    const T* grad = grad_logit + node * stride;
    T total = 0;
    SB_SIMD_SUM(total)
    for (int64_t i = 0; i < n; ++i) total += grad[i];
    grad_gate_bias[node] += total;
    for (int64_t a = 0; a < tree.n_components; ++a) {
      grad_gate_weights[node * tree.n_components + a] += dot(grad, z + a * z_stride, n);
      const T weight = tree.gate_weights[node * tree.n_components + a];
      if (weight != T(0)) axpy(weight, grad, grad_z + a * grad_z_stride, n);
    }
  }
}

// Scratch memory of the two functions above: scores, a row, and grad_logit.
template <typename T>
int64_t backward_buffer_size(const TreeView<const T>& tree, int64_t stride) {
  return (2 * leaf_count(tree) + node_count(tree)) * stride;
}

// All gradients of sum(grad_output * output); grad_leaf_weights is ignored for constant leaves.
template <typename T>
void tree_gradients(const TreeView<const T>& tree, const T* z, const T* grad_output, int64_t n_samples, int n_threads,
                    T* grad_gate_weights, T* grad_gate_bias, T* grad_leaf_values, T* grad_leaf_weights, T* grad_z) {
  const int64_t sizes[4] = {node_count(tree) * tree.n_components, node_count(tree), leaf_count(tree) * tree.n_outputs,
                            tree.leaf_weights ? leaf_count(tree) * tree.n_outputs * tree.n_components : 0};
  const int64_t per_block = sizes[0] + sizes[1] + sizes[2] + sizes[3];
  const int64_t n_blocks = block_count(n_samples);
  std::vector<T> partial(static_cast<size_t>(per_block * n_blocks));
  parallel_for(n_blocks, n_threads, [&](int64_t block) {
    const int64_t begin = block * kBlockRows, n = std::min(kBlockRows, n_samples - begin);
    TreeBlock<T> scratch(tree.depth, n);
    std::vector<T> buffer(static_cast<size_t>(backward_buffer_size(tree, scratch.stride)));
    scratch.forward(tree, z + begin, n_samples, n);
    T* gate_weights = partial.data() + block * per_block;
    T* gate_bias = gate_weights + sizes[0];
    T* leaf_values = gate_bias + sizes[1];
    T* grad_logit = buffer.data() + 2 * leaf_count(tree) * scratch.stride;
    for (int64_t a = 0; a < tree.n_components; ++a) std::fill_n(grad_z + a * n_samples + begin, n, T(0));
    std::vector<T> values(static_cast<size_t>(leaf_count(tree) * tree.n_outputs * scratch.stride));
    for (int64_t leaf = 0; leaf < leaf_count(tree); ++leaf)
      for (int64_t o = 0; o < tree.n_outputs; ++o)
        leaf_output(tree, leaf, o, z + begin, n_samples, n,
                    values.data() + (leaf * tree.n_outputs + o) * scratch.stride);
    backward_to_logits(tree, scratch, z + begin, n_samples, values.data(), grad_output + begin, n_samples, n,
                       buffer.data(), grad_logit, leaf_values, leaf_values + sizes[2], grad_z + begin, n_samples);
    backward_from_logits(tree, grad_logit, scratch.stride, z + begin, n_samples, n, gate_weights, gate_bias,
                         grad_z + begin, n_samples);
  });
  T* outputs[4] = {grad_gate_weights, grad_gate_bias, grad_leaf_values, grad_leaf_weights};
  int64_t offset = 0;
  for (int part = 0; part < 4; offset += sizes[part++])
    for (int64_t j = 0; j < sizes[part]; ++j) {
      T sum = 0;
      for (int64_t block = 0; block < n_blocks; ++block) sum += partial[block * per_block + offset + j];
      outputs[part][j] = sum;
    }
}

}  // namespace SB_ISA
}  // namespace softboost
