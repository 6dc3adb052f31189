// Joint gradient steps on one soft tree and its feature transform: the inner loop of Algorithm 1.
#pragma once

#include "matrix.hpp"
#include "soft_tree.hpp"
#include "solve.hpp"
#include "types.hpp"

namespace softboost {
namespace SB_ISA {

// Bias of Adam's moments at step t, the same for all parameters.
struct AdamBias {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.99;
  double first, second;
  explicit AdamBias(int64_t t)
      : first(1 - std::pow(kBeta1, static_cast<double>(t))), second(1 - std::pow(kBeta2, static_cast<double>(t))) {}
};

// Adam with bias correction; the moments are kept for one round.
template <typename T>
struct Adam {
  std::vector<T> first, second;

  explicit Adam(int64_t size) : first(static_cast<size_t>(size)), second(static_cast<size_t>(size)) {}

  void step(const T* SB_RESTRICT gradient, T* SB_RESTRICT parameters, double learning_rate, const AdamBias& bias) {
    constexpr double kBeta1 = AdamBias::kBeta1, kBeta2 = AdamBias::kBeta2;
    const T rate = static_cast<T>(learning_rate / bias.first), correction = static_cast<T>(1 / bias.second);
    const int64_t n = static_cast<int64_t>(first.size());
    T* SB_RESTRICT m = first.data();
    T* SB_RESTRICT v = second.data();
    SB_SIMD
    for (int64_t j = 0; j < n; ++j) {
      m[j] = T(kBeta1) * m[j] + T(1 - kBeta1) * gradient[j];
      v[j] = T(kBeta2) * v[j] + T(1 - kBeta2) * gradient[j] * gradient[j];
      parameters[j] -= rate * m[j] / (std::sqrt(v[j] * correction) + T(1e-8));
    }
  }
};

// There are two ways to compute the same numbers. With linear leaves, z = Q x is formed and everything is computed
// from z. With constant leaves, z occurs only in the gates, whose logits are (W Q) x. Then only the few rows of W Q are
// multiplied with the samples in the forward and backward passes, and a square Q costs hardly more than no Q.
//
// Minimises  1 / (2 sum w) * sum_i w_i |r_i - f(Q x_i)|^2  by n_steps steps on the given arrays, in place.
template <typename T>
class JointFitter {
 public:
  // x (n_inputs, n_samples), weight (n_samples,) or null
  JointFitter(const T* x, const T* weight, int64_t n_inputs, int64_t n_samples, const JointSettings& options,
              int n_threads, Interrupt* interrupt)
      : x_(x), weight_(weight), n_inputs_(n_inputs), n_(n_samples), options_(options), n_threads_(n_threads),
        interrupt_(interrupt) {
    double total = 0;
    for (int64_t i = 0; i < n_; ++i) total += weight_ ? static_cast<double>(weight_[i]) : 1.0;
    inverse_total_ = T(1.0 / total);
    for (int64_t t = 1; t <= options_.n_steps; ++t) bias_.emplace_back(t);
  }

  // target (n_outputs, n_samples); q: (n_components, n_inputs), (n_inputs,) or unused; output (n_outputs, n_samples) is
  // that of the final tree. loss_trace (n_steps + 1,) receives the loss before each step and at the end; null: it is
  // not computed. All calls must have trees of the same shape.
  void run(const TreeView<T>& tree, const T* target, T* q, T* output, double* loss_trace) {
    target_ = target;
    T *gate_weights = tree.gate_weights, *gate_bias = tree.gate_bias;
    T *leaf_values = tree.leaf_values, *leaf_weights = tree.leaf_weights;
    tree_ = {tree.depth, tree.n_components, tree.n_outputs, gate_weights, gate_bias, leaf_values, leaf_weights};
    given_q_ = q;
    leaf_values_ = leaf_values;
    leaf_weights_ = leaf_weights;
    n_blocks_ = block_count(n_);
    allocate();
    const int64_t n_gates = sizes_[0] + sizes_[1], n_leaf = sizes_[2] + sizes_[3];
    Adam<T> gate_adam(n_gates), leaf_adam(n_leaf), q_adam(sizes_[4]);
    std::vector<T> gates(static_cast<size_t>(n_gates)), leaves(static_cast<size_t>(n_leaf));
    for (int64_t t = 1; t <= options_.n_steps; ++t) {
      const double phase = static_cast<double>(t - 1) / static_cast<double>(options_.n_steps);
      const double decay = options_.cosine_decay ? 0.5 * (1 + std::cos(3.14159265358979323846 * phase)) : 1.0;
      const AdamBias& bias = bias_[static_cast<size_t>(t - 1)];
      forward();
      backward();
      if (loss_trace) loss_trace[t - 1] = squared_error();
      if (interrupted(interrupt_)) return;
      const T* gradient = gradient_.data();
      if (options_.learn_gates) {
        std::copy_n(gate_weights, sizes_[0], gates.data());
        std::copy_n(gate_bias, sizes_[1], gates.data() + sizes_[0]);
        const T shrink = static_cast<T>(1 - options_.gate_learning_rate * decay * options_.weight_decay);
        for (int64_t j = 0; j < sizes_[0]; ++j) gates[j] *= shrink;
        gate_adam.step(gradient, gates.data(), options_.gate_learning_rate * decay, bias);
        std::copy_n(gates.data(), sizes_[0], gate_weights);
        std::copy_n(gates.data() + sizes_[0], sizes_[1], gate_bias);
      }
      if (!options_.solve_leaves && options_.leaf_learning_rate > 0) {
        std::copy_n(leaf_values, sizes_[2], leaves.data());
        if (leaf_weights) std::copy_n(leaf_weights, sizes_[3], leaves.data() + sizes_[2]);
        leaf_adam.step(gradient + n_gates, leaves.data(), options_.leaf_learning_rate * decay, bias);
        std::copy_n(leaves.data(), sizes_[2], leaf_values);
        if (leaf_weights) std::copy_n(leaves.data() + sizes_[2], sizes_[3], leaf_weights);
      }
      if (learns_transform()) {
        const double rate = options_.transform_learning_rate * decay;
        q_adam.step(gradient + n_gates + n_leaf, q_, rate, bias);
        if (options_.group_lasso > 0) shrink_columns(static_cast<T>(options_.group_lasso * rate));
      }
    }
    forward();
    give_back_q();
    if (loss_trace) loss_trace[options_.n_steps] = squared_error();
    std::copy(output_.begin(), output_.end(), output);
  }

 private:
  bool learns_transform() const { return options_.learn_transform && options_.transform != TransformKind::identity; }

  void allocate() {
    const int64_t m = tree_.n_components, o = tree_.n_outputs, leaves = leaf_count(tree_);
    const int depth = tree_.depth;
    sizes_[0] = node_count(tree_) * m;
    sizes_[1] = node_count(tree_);
    sizes_[2] = leaves * o;
    sizes_[3] = leaf_weights_ ? leaves * o * m : 0;
    input_stride_ = round_up(n_inputs_, Lanes<T>::count);
    sizes_[4] = options_.transform == TransformKind::linear     ? m * input_stride_
                : options_.transform == TransformKind::diagonal ? n_inputs_
                                                                : 0;
    n_parameters_ = sizes_[0] + sizes_[1] + sizes_[2] + sizes_[3] + sizes_[4];
    n_basis_ = leaves * (1 + (leaf_weights_ ? m : 0));
    composed_ = leaf_weights_ == nullptr && (options_.transform != TransformKind::linear || m > node_count(tree_));
    composed_gates_.resize(static_cast<size_t>(composed_ ? node_count(tree_) * input_stride_ : 0));
    keep_.resize(static_cast<size_t>(n_inputs_));
    take_q();
    for (int64_t b = static_cast<int64_t>(blocks_.size()); b < n_blocks_; ++b) {
      const int64_t n = std::min(kBlockRows, n_ - b * kBlockRows);
      blocks_.emplace_back(depth, n);
      fill_block(blocks_.back(), b * kBlockRows, n);
    }
    gradient_.assign(static_cast<size_t>(n_parameters_), T(0));
    output_.assign(static_cast<size_t>(o * n_), T(0));
  }

  struct Block {
    TreeBlock<T> tree;
    std::vector<T> x;     // (n_inputs, stride), zero past the last sample
    std::vector<T> rows;  // (n, input_stride), the same by samples, zero past the last input
    std::vector<T> z, basis, target, grad_output, grad_z, buffer, value, gradient, grad_composed;
    std::vector<double> gram;
    explicit Block(int depth, int64_t n) : tree(depth, n) {}
  };

  template <typename Body>
  void each_block(Body body) {
    parallel_for(
        n_blocks_, n_threads_,
        [&](int64_t b) {
          const int64_t begin = b * kBlockRows;
          body(blocks_[static_cast<size_t>(b)], begin, std::min(kBlockRows, n_ - begin));
        },
        interrupt_);
  }

  // Allocates the scratch memory of a block and copies its rows of X in the layouts of the products below.
  void fill_block(Block& block, int64_t begin, int64_t n) const {
    const int64_t stride = block.tree.stride, o = tree_.n_outputs;
    const bool by_rows = composed_ || (learns_transform() && options_.transform == TransformKind::linear);
    block.x.assign(static_cast<size_t>(n_inputs_ * stride), T(0));
    block.rows.assign(static_cast<size_t>(by_rows ? n * input_stride_ : 0), T(0));
    for (int64_t j = 0; j < n_inputs_; ++j) {
      const T* x = x_ + j * n_ + begin;
      std::copy_n(x, n, block.x.data() + j * stride);
      if (by_rows)
        for (int64_t i = 0; i < n; ++i) block.rows[i * input_stride_ + j] = x[i];
    }
    if (!composed_) {
      if (options_.transform != TransformKind::identity)
        block.z.assign(static_cast<size_t>(tree_.n_components * stride), T(0));
      block.grad_z.assign(static_cast<size_t>(tree_.n_components * stride), T(0));
    } else {
      block.grad_composed.resize(static_cast<size_t>(node_count(tree_) * input_stride_));
    }
    if (options_.solve_leaves) {
      block.basis.assign(static_cast<size_t>(n_basis_ * stride), T(0));
      block.gram.resize(static_cast<size_t>(n_basis_ * (n_basis_ + o)));
      block.target.assign(static_cast<size_t>(o * stride), T(0));
    }
    block.grad_output.assign(static_cast<size_t>(o * stride), T(0));
    block.buffer.assign(static_cast<size_t>(backward_buffer_size(tree_, stride)), T(0));
    block.value.resize(static_cast<size_t>(leaf_count(tree_) * o * stride));
    block.gradient.resize(static_cast<size_t>(composed_ ? n_parameters_ - sizes_[4] : n_parameters_));
  }

  const T* z_of(const Block& block) const {
    return options_.transform == TransformKind::identity ? block.x.data() : block.z.data();
  }

  // Working copy of Q: rows input_stride_ apart, zero past the last input. A diagonal is used as given.
  void take_q() {
    if (options_.transform != TransformKind::linear) {
      q_ = given_q_;
      return;
    }
    own_q_.assign(static_cast<size_t>(tree_.n_components * input_stride_), T(0));
    q_ = own_q_.data();
    for (int64_t a = 0; a < tree_.n_components; ++a)
      std::copy_n(given_q_ + a * n_inputs_, n_inputs_, q_ + a * input_stride_);
  }

  void give_back_q() const {
    if (options_.transform != TransformKind::linear) return;
    for (int64_t a = 0; a < tree_.n_components; ++a)
      std::copy_n(q_ + a * input_stride_, n_inputs_, given_q_ + a * n_inputs_);
  }

  // composed_gates_ (n_nodes, input_stride_) = W Q
  void compose_gates() {
    const int64_t n_nodes = node_count(tree_), m = tree_.n_components;
    if (options_.transform == TransformKind::linear) {
      multiply(tree_.gate_weights, m, n_nodes, m, q_, input_stride_, input_stride_, static_cast<const T*>(nullptr),
               composed_gates_.data(), input_stride_);
      return;
    }
    for (int64_t node = 0; node < n_nodes; ++node)
      for (int64_t j = 0; j < n_inputs_; ++j)
        composed_gates_[node * input_stride_ + j] =
            tree_.gate_weights[node * n_inputs_ + j] * (options_.transform == TransformKind::diagonal ? q_[j] : T(1));
  }

  // gradients of W and Q from the gradient of W Q at `composed`, rows input_stride_ apart
  void pull_back_composed(const T* composed, T* grad_gate_weights, T* grad_q) {
    const int64_t n_nodes = node_count(tree_), m = tree_.n_components;
    if (options_.transform == TransformKind::linear) {
      multiply_transposed(composed, input_stride_, n_nodes, q_, input_stride_, m, input_stride_, grad_gate_weights, m);
      if (!learns_transform()) return;
      multiply<T, true>(tree_.gate_weights, m, m, n_nodes, composed, input_stride_, input_stride_, nullptr, grad_q,
                        input_stride_);
      return;
    }
    std::fill_n(grad_q, sizes_[4], T(0));
    for (int64_t node = 0; node < n_nodes; ++node) {
      const T* grad = composed + node * input_stride_;
      const T* gate = tree_.gate_weights + node * m;
      T* out = grad_gate_weights + node * m;
      if (options_.transform == TransformKind::identity) {
        std::copy_n(grad, n_inputs_, out);
        continue;
      }
      for (int64_t j = 0; j < n_inputs_; ++j) out[j] = grad[j] * q_[j];
      if (learns_transform())
        for (int64_t j = 0; j < n_inputs_; ++j) grad_q[j] += grad[j] * gate[j];
    }
  }

  void gates_forward(Block& block, int64_t n) const {
    const int64_t stride = block.tree.stride, padded = round_up(n, Lanes<T>::count);
    if (composed_) {
      multiply(composed_gates_.data(), input_stride_, node_count(tree_), n_inputs_, block.x.data(), stride, padded,
               tree_.gate_bias, block.tree.right.data(), stride);
      block.tree.forward_from_logits(tree_.depth, n);
      return;
    }
    if (options_.transform == TransformKind::linear) {
      multiply(q_, input_stride_, tree_.n_components, n_inputs_, block.x.data(), stride, padded,
               static_cast<const T*>(nullptr), block.z.data(), stride);
    } else if (options_.transform == TransformKind::diagonal) {
      for (int64_t a = 0; a < n_inputs_; ++a)
        for (int64_t i = 0; i < n; ++i) block.z[a * stride + i] = q_[a] * block.x[a * stride + i];
    }
    block.tree.forward(tree_, z_of(block), stride, n);
  }

  void forward() {
    if (composed_) compose_gates();
    each_block([&](Block& block, int64_t begin, int64_t n) {
      gates_forward(block, n);
      if (options_.solve_leaves) fill_gram(block, begin, n);
    });
    if (options_.solve_leaves) solve_leaves();
    each_block([&](Block& block, int64_t begin, int64_t n) {
      const int64_t stride = block.tree.stride;
      for (int64_t o = 0; o < tree_.n_outputs; ++o) {
        T* out = output_.data() + o * n_ + begin;
        std::fill_n(out, n, T(0));
        for (int64_t leaf = 0; leaf < leaf_count(tree_); ++leaf) {
          const T* reach = block.tree.memberships.data() + leaf * stride;
          T* value = block.value.data() + (leaf * tree_.n_outputs + o) * stride;
          leaf_output(tree_, leaf, o, z_of(block), stride, n, value);
          SB_SIMD
          for (int64_t i = 0; i < n; ++i) out[i] += reach[i] * value[i];
        }
      }
    });
  }

  void fill_gram(Block& block, int64_t begin, int64_t n) const {
    const int64_t stride = block.tree.stride, per_leaf = n_basis_ / leaf_count(tree_);
    for (int64_t leaf = 0; leaf < leaf_count(tree_); ++leaf) {
      const T* reach = block.tree.memberships.data() + leaf * stride;
      T* constant = block.basis.data() + leaf * per_leaf * stride;
      if (weight_) {
        for (int64_t i = 0; i < n; ++i) constant[i] = reach[i] * std::sqrt(weight_[begin + i]);
      } else {
        std::copy_n(reach, n, constant);
      }
      for (int64_t a = 0; a + 1 < per_leaf; ++a) {
        T* row = constant + (1 + a) * stride;
        const T* z = z_of(block) + a * stride;
        SB_SIMD
        for (int64_t i = 0; i < n; ++i) row[i] = constant[i] * z[i];
      }
    }
    for (int64_t o = 0; o < tree_.n_outputs; ++o)
      for (int64_t i = 0; i < n; ++i)
        block.target[o * stride + i] = target_[o * n_ + begin + i] * (weight_ ? std::sqrt(weight_[begin + i]) : T(1));
    std::fill(block.gram.begin(), block.gram.end(), 0.0);
    accumulate_gram(block.basis.data(), block.target.data(), n_basis_, tree_.n_outputs, stride, n, block.gram.data(),
                    block.gram.data() + n_basis_ * n_basis_);
  }

  void solve_leaves() {
    std::vector<double>& total = blocks_[0].gram;
    for (int64_t b = 1; b < n_blocks_; ++b)
      for (size_t j = 0; j < total.size(); ++j) total[j] += blocks_[static_cast<size_t>(b)].gram[j];
    const int64_t per_leaf = n_basis_ / leaf_count(tree_), n_outputs = tree_.n_outputs;
    cholesky_.compute(total.data(), n_basis_, options_.ridge, interrupt_, total.data() + n_basis_ * n_basis_,
                      n_outputs);
    cholesky_.invert();
    solution_.resize(static_cast<size_t>(n_outputs * n_basis_));
    cholesky_.solve_all(solution_.data());
    for (int64_t o = 0; o < n_outputs; ++o)
      for (int64_t leaf = 0; leaf < leaf_count(tree_); ++leaf) {
        const double* own = solution_.data() + o * n_basis_ + leaf * per_leaf;
        leaf_values_[leaf * n_outputs + o] = static_cast<T>(own[0]);
        for (int64_t a = 0; a + 1 < per_leaf; ++a)
          leaf_weights_[(leaf * n_outputs + o) * tree_.n_components + a] = static_cast<T>(own[1 + a]);
      }
  }

  double squared_error() const {
    double sum = 0;
    for (int64_t o = 0; o < tree_.n_outputs; ++o)
      for (int64_t i = 0; i < n_; ++i) {
        const double e = static_cast<double>(output_[o * n_ + i] - target_[o * n_ + i]);
        sum += (weight_ ? static_cast<double>(weight_[i]) : 1.0) * e * e;
      }
    return 0.5 * sum * static_cast<double>(inverse_total_);
  }

  // Fills gradient_. With solved leaves the envelope theorem holds: at the optimum of the leaves
  // the gradient with respect to gates and Q is the one with the leaves held fixed.
  void backward() {
    each_block([&](Block& block, int64_t begin, int64_t n) {
      const int64_t stride = block.tree.stride;
      for (int64_t o = 0; o < tree_.n_outputs; ++o) {
        const T *out = output_.data() + o * n_ + begin, *r = target_ + o * n_ + begin;
        T* grad = block.grad_output.data() + o * stride;
        if (weight_) {
          for (int64_t i = 0; i < n; ++i) grad[i] = (out[i] - r[i]) * weight_[begin + i] * inverse_total_;
        } else {
          for (int64_t i = 0; i < n; ++i) grad[i] = (out[i] - r[i]) * inverse_total_;
        }
      }
      std::fill(block.gradient.begin(), block.gradient.end(), T(0));
      T* gate_weights = block.gradient.data();
      T* gate_bias = gate_weights + sizes_[0];
      T* leaf_values = gate_bias + sizes_[1];
      T* leaf_weights = leaf_values + sizes_[2];
      T* grad_logit = block.buffer.data() + 2 * leaf_count(tree_) * stride;
      std::fill(block.grad_z.begin(), block.grad_z.end(), T(0));
      backward_to_logits(tree_, block.tree, z_of(block), stride, block.value.data(), block.grad_output.data(), stride,
                         n, block.buffer.data(), grad_logit, options_.solve_leaves ? nullptr : leaf_values,
                         leaf_weights, block.grad_z.data(), stride);
      if (!composed_) {
        backward_from_logits(tree_, grad_logit, stride, z_of(block), stride, n, gate_weights, gate_bias,
                             block.grad_z.data(), stride);
        if (learns_transform()) pull_back(block, n, leaf_weights + sizes_[3]);
        return;
      }
      for (int64_t node = 0; node < node_count(tree_); ++node) {
        T total = 0;
        SB_SIMD_SUM(total)
        for (int64_t i = 0; i < n; ++i) total += grad_logit[node * stride + i];
        gate_bias[node] = total;
      }
      multiply(grad_logit, stride, node_count(tree_), n, block.rows.data(), input_stride_, input_stride_,
               static_cast<const T*>(nullptr), block.grad_composed.data(), input_stride_);
    });
    const int64_t n_summed = static_cast<int64_t>(blocks_[0].gradient.size());
    std::fill_n(gradient_.data(), n_summed, T(0));
    for (const Block& block : blocks_) axpy(T(1), block.gradient.data(), gradient_.data(), n_summed);
    if (composed_) {
      std::vector<T>& total = blocks_[0].grad_composed;
      for (int64_t b = 1; b < n_blocks_; ++b)
        axpy(T(1), blocks_[static_cast<size_t>(b)].grad_composed.data(), total.data(),
             static_cast<int64_t>(total.size()));
      pull_back_composed(total.data(), gradient_.data(), gradient_.data() + n_parameters_ - sizes_[4]);
    }
  }

  // grad_Q = grad_z X^T (its diagonal for a diagonal transform)
  void pull_back(Block& block, int64_t n, T* grad_q) const {
    const int64_t stride = block.tree.stride, m = tree_.n_components;
    if (options_.transform == TransformKind::diagonal) {
      for (int64_t a = 0; a < m; ++a) grad_q[a] = dot(block.grad_z.data() + a * stride, block.x.data() + a * stride, n);
      return;
    }
    multiply(block.grad_z.data(), stride, m, n, block.rows.data(), input_stride_, input_stride_,
             static_cast<const T*>(nullptr), grad_q, input_stride_);
  }

  // group soft-thresholding: reduces the Euclidean norm of each column of Q by `amount`, at most to zero
  void shrink_columns(T amount) {
    const int64_t rows = options_.transform == TransformKind::linear ? tree_.n_components : 1;
    SB_SIMD
    for (int64_t j = 0; j < n_inputs_; ++j) {
      T square = 0;
      for (int64_t a = 0; a < rows; ++a) square += q_[a * input_stride_ + j] * q_[a * input_stride_ + j];
      const T length = std::sqrt(square);
      keep_[j] = length > amount ? T(1) - amount / length : T(0);
    }
    for (int64_t a = 0; a < rows; ++a)
      for (int64_t j = 0; j < n_inputs_; ++j) q_[a * input_stride_ + j] *= keep_[j];
  }

  const T* x_;
  const T* target_ = nullptr;
  const T* weight_;
  int64_t n_inputs_, n_;
  JointSettings options_;
  int n_threads_;
  Interrupt* interrupt_;
  T inverse_total_;
  TreeView<const T> tree_{};
  T* given_q_ = nullptr;
  T* q_ = nullptr;
  T* leaf_values_ = nullptr;
  T* leaf_weights_ = nullptr;
  int64_t sizes_[5] = {}, n_parameters_ = 0, n_basis_ = 0, n_blocks_ = 0, input_stride_ = 0;
  bool composed_ = false;
  std::vector<AdamBias> bias_;  // of each step
  std::vector<Block> blocks_;
  std::vector<T> gradient_, output_, composed_gates_, own_q_, keep_;
  std::vector<double> solution_;
  Cholesky cholesky_;
};

}  // namespace SB_ISA
}  // namespace softboost
