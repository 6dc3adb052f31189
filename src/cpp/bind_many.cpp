// Many small models of the same shape in one call: threads share the models, and each model is computed by the same
// kernels as a single one, so that its bits are the same.
#include <algorithm>

#include "bindings.hpp"

namespace softboost {

namespace {

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

template <typename A>
auto copy(const A& a) {
  return std::vector<std::remove_const_t<typename A::Scalar>>(a.data(), a.data() + a.size());
}

template <typename Body>
void for_each_model(int64_t n_models, int n_threads, Interrupt* interrupt, Body body) {
  const auto call = [](void* context, int64_t i) { (*static_cast<Body*>(context))(i); };
  current_table->for_each(n_models, n_threads, call, &body, interrupt);
}

constexpr double kFarthest = 1e18;  // FARTHEST of _kernels.py

// Offsets of the arrays of concatenated trees, as in Ensemble.
struct TreeStarts {
  std::vector<int64_t> column{0}, weight{0}, bias{0}, leaf{0};

  void add(int depth, int64_t width, bool linear, int64_t n_outputs) {
    const int64_t leaves = int64_t{1} << depth;
    column.push_back(column.back() + width);
    weight.push_back(weight.back() + (leaves - 1) * width);
    bias.push_back(bias.back() + leaves - 1);
    leaf.push_back(leaf.back() + leaves * n_outputs * (linear ? 1 + width : 1));
  }
};

// The trees of one fit.
struct Trees : FlatTrees<double> {
  void add(const Trees& other) {
    append(depth, other.depth);
    append(columns, other.columns);
    append(n_columns, other.n_columns);
    append(gate_weights, other.gate_weights);
    append(gate_bias, other.gate_bias);
    append(leaf, other.leaf);
  }

  // learning_rate times the output of each tree at the standardised rows x (n_inputs, n): out (n_trees, n, n_outputs)
  void outputs(const double* x, int64_t n_inputs, int64_t n, int64_t n_outputs, bool linear, double learning_rate,
               double* out) const {
    TreeStarts start;
    for (size_t k = 0; k < depth.size(); ++k) start.add(depth[k], n_columns[k], linear, n_outputs);
    const size_t m = static_cast<size_t>(n_inputs);
    const std::vector<double> zero(m), one(m, 1.0), low(m, -kFarthest), high(m, kFarthest),
        none(static_cast<size_t>(n_outputs)), slopes(m * static_cast<size_t>(n_outputs));
    const std::vector<uint8_t> is_linear(depth.size(), linear);
    std::vector<double> scaled(leaf), rows(m * static_cast<size_t>(n));
    for (double& value : scaled) value *= learning_rate;
    for (int64_t j = 0; j < n_inputs; ++j)
      for (int64_t i = 0; i < n; ++i) rows[i * n_inputs + j] = x[j * n + i];
    const Ensemble<double> view{n_inputs,         n_outputs,           size(depth.size()),  zero.data(),
                                one.data(),       low.data(),          high.data(),         none.data(),
                                slopes.data(),    depth.data(),        is_linear.data(),    start.column.data(),
                                columns.data(),   start.weight.data(), gate_weights.data(), start.bias.data(),
                                gate_bias.data(), start.leaf.data(),   scaled.data()};
    kernels<double>().predict_each(view, rows.data(), n, 1, out);
  }

 private:
  template <typename U>
  static void append(std::vector<U>& to, const std::vector<U>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
};

// Ridge regression of y (n_models, n_outputs, n) on x (n_models, n_columns, n) for one of several penalties.
auto ridge_each(In3<double> x, In3<double> y, In1<double> penalties, size_t stage, int n_threads) {
  const size_t n_models = x.shape(0), d = x.shape(1), o = y.shape(1);
  const int64_t n = size(x.shape(2));
  std::vector<double> mean_x(n_models * d), mean_y(n_models * o), slopes(n_models * o * d);
  run_interruptibly([&](Interrupt* interrupt) {
    for_each_model(size(n_models), n_threads, interrupt, [&](int64_t s) {
      const double* own_x = x.data() + s * size(d) * n;
      const double* own_y = y.data() + s * size(o) * n;
      double *centre_x = mean_x.data() + s * size(d), *centre_y = mean_y.data() + s * size(o);
      std::vector<double> gram(d * d), cross(o * d), path(penalties.size() * o * d), logs(penalties.size());
      kernels<double>().weighted_means(own_x, nullptr, size(d), n, 1, centre_x);
      kernels<double>().weighted_means(own_y, nullptr, size(o), n, 1, centre_y);
      kernels<double>().moments(own_x, own_y, nullptr, size(d), size(o), n, centre_x, centre_y, 1, nullptr, gram.data(),
                                cross.data());
      current_table->ridge_path(gram.data(), cross.data(), size(d), size(o), penalties.data(), size(penalties.size()),
                                nullptr, path.data(), logs.data());
      std::copy_n(path.data() + stage * o * d, o * d, slopes.data() + s * size(o * d));
    });
  });
  return nb::make_tuple(array(std::move(mean_x), {n_models, d}), array(std::move(mean_y), {n_models, o}),
                        array(std::move(slopes), {n_models, o, d}));
}

// boost_greedy from a linear start for each model; also the start and the contribution of each round.
auto boost_each(In3<double> x, In3<double> y, In3<double> coefficients, In2<double> intercepts,
                const GreedySettings& settings, const LossSettings& loss, int n_rounds, double learning_rate,
                int n_threads) {
  const size_t n_models = x.shape(0), d = x.shape(1), n = x.shape(2), o = y.shape(1),
               rounds = static_cast<size_t>(n_rounds);
  std::vector<double> start(n_models * o * n), outputs(n_models * rounds * n * o);
  std::vector<Trees> fitted(n_models);
  run_interruptibly([&](Interrupt* interrupt) {
    for_each_model(size(n_models), n_threads, interrupt, [&](int64_t s) {
      const size_t k = static_cast<size_t>(s);
      const double* own = x.data() + k * d * n;
      double* first = start.data() + k * o * n;
      kernels<double>().linear_outputs(coefficients.data() + k * o * d, intercepts.data() + k * o, size(o), own,
                                       size(d), size(n), 1, first);
      std::vector<double> prediction(first, first + o * n), threshold(d * kMaxBins);
      std::vector<uint8_t> bins(d * n);
      std::vector<int32_t> count(d), order(size(n) <= kMaxSorted ? d * n : 0);
      int32_t* sorted = order.empty() ? nullptr : order.data();
      kernels<double>().bin_columns(own, nullptr, size(d), size(n), kMaxBins, 1, nullptr, bins.data(), count.data(),
                                    threshold.data(), sorted);
      const BinnedColumns<double> view{bins.data(), count.data(), threshold.data(), sorted, size(d), size(n)};
      kernels<double>().boost_greedy(own, view, y.data() + k * o * n, nullptr, size(o), settings, loss, n_rounds,
                                     learning_rate, 1, nullptr, prediction.data(), fitted[k]);
      fitted[k].outputs(own, size(d), size(n), size(o), settings.linear_leaves, learning_rate,
                        outputs.data() + k * rounds * n * o);
    });
  });
  Trees all;
  for (const Trees& own : fitted) all.add(own);
  const size_t n_trees = all.depth.size(), n_used = all.columns.size(), n_gates = all.gate_weights.size(),
               n_biases = all.gate_bias.size(), n_leaf = all.leaf.size();
  return nb::make_tuple(array(std::move(all.depth), {n_trees}), array(std::move(all.n_columns), {n_trees}),
                        array(std::move(all.columns), {n_used}), array(std::move(all.gate_weights), {n_gates}),
                        array(std::move(all.gate_bias), {n_biases}), array(std::move(all.leaf), {n_leaf}),
                        array(std::move(start), {n_models, o, n}), array(std::move(outputs), {n_models, rounds, n, o}));
}

// Fitted models with the same inputs and the same number of trees, stored end to end. `missing` lists the features of
// which a further input tells whether the value is missing.
class Ensembles {
 public:
  Ensembles(In2<double> offset, In2<double> scale, In2<double> intercept, In3<double> coefficients,
            In1<int64_t> missing, In1<int32_t> depth, In1<uint8_t> linear, In1<int64_t> n_columns, In1<int32_t> columns,
            In1<double> gate_weights, In1<double> gate_bias, In1<double> leaf, double rate, In2<double> unit)
      : n_models_(size(offset.shape(0))), n_inputs_(size(offset.shape(1))), n_outputs_(size(intercept.shape(1))),
        offset_(copy(offset)), scale_(copy(scale)), intercept_(copy(intercept)), coefficients_(copy(coefficients)),
        low_(offset.shape(1), -kFarthest), high_(offset.shape(1), kFarthest), missing_(copy(missing)),
        depth_(copy(depth)), linear_(copy(linear)), columns_(copy(columns)), gate_weights_(copy(gate_weights)),
        gate_bias_(copy(gate_bias)), leaf_(copy(leaf)) {
    const int64_t all = size(depth_.size()), n_features = n_inputs_ - size(missing_.size());
    require(n_models_ > 0 && n_outputs_ > 0 && n_features > 0, "ensembles: no models, outputs or features");
    require(size(scale_.size()) == n_models_ * n_inputs_, "ensembles: scale has the wrong size");
    require(size(intercept_.size()) == n_models_ * n_outputs_, "ensembles: intercept has the wrong size");
    require(size(coefficients_.size()) == n_models_ * n_outputs_ * n_inputs_, "ensembles: wrong coefficients");
    require(all % n_models_ == 0 && size(linear_.size()) == all && size(n_columns.size()) == all,
            "ensembles: models must have equal numbers of trees");
    for (int64_t j : missing_) require(j >= 0 && j < n_features, "ensembles: feature index out of range");
    for (int64_t k = 0; k < all; ++k) {
      require(depth_[k] >= 1 && depth_[k] <= kMaxDepth, "ensembles: depth outside 1 to MAX_DEPTH");
      const int64_t width = n_columns.data()[k];
      require(width >= 0 && width <= n_inputs_, "ensembles: more columns than inputs");
      start_.add(depth_[k], width, linear_[k], n_outputs_);
    }
    require(start_.column.back() == size(columns_.size()) && start_.weight.back() == size(gate_weights_.size()) &&
                start_.bias.back() == size(gate_bias_.size()) && start_.leaf.back() == size(leaf_.size()),
            "ensembles: the arrays of the trees have the wrong length");
    for (int32_t j : columns_) require(j >= 0 && j < n_inputs_, "ensembles: column index out of range");
    require(unit.size() == intercept.size(), "ensembles: unit must have one entry per model and output");
    scale_leaves(rate, unit.data(), n_columns.data());
  }

  int64_t n_models() const { return n_models_; }
  int64_t n_outputs() const { return n_outputs_; }
  int64_t n_features() const { return n_inputs_ - size(missing_.size()); }

  // out (n, n_outputs) of one model at rows (n, n_features)
  void predict(int64_t model, const double* rows, int64_t n, double* out) const {
    const int64_t n_features = this->n_features(), n_trees = size(depth_.size()) / n_models_, first = model * n_trees;
    std::vector<double> encoded(static_cast<size_t>(n * n_inputs_));
    for (int64_t i = 0; i < n; ++i) {
      double* to = encoded.data() + i * n_inputs_;
      std::copy_n(rows + i * n_features, n_features, to);
      for (size_t k = 0; k < missing_.size(); ++k) {
        const double value = to[missing_[k]];
        to[n_features + size(k)] = value == value ? 0.0 : 1.0;
      }
    }
    const Ensemble<double> view{n_inputs_,
                                n_outputs_,
                                n_trees,
                                offset_.data() + model * n_inputs_,
                                scale_.data() + model * n_inputs_,
                                low_.data(),
                                high_.data(),
                                intercept_.data() + model * n_outputs_,
                                coefficients_.data() + model * n_outputs_ * n_inputs_,
                                depth_.data() + first,
                                linear_.data() + first,
                                start_.column.data() + first,
                                columns_.data(),
                                start_.weight.data() + first,
                                gate_weights_.data(),
                                start_.bias.data() + first,
                                gate_bias_.data(),
                                start_.leaf.data() + first,
                                leaf_.data()};
    kernels<double>().predict(view, encoded.data(), n, 1, out);
  }

 private:
  // one multiplication after the other, as for a single model
  void scale_leaves(double rate, const double* unit, const int64_t* n_columns) {
    const int64_t all = size(depth_.size()), n_trees = all / n_models_;
    double* value = leaf_.data();
    for (int64_t k = 0; k < all; ++k) {
      const double* own = unit + k / n_trees * n_outputs_;
      const int64_t leaves = int64_t{1} << depth_[k];
      for (int64_t i = 0; i < leaves * n_outputs_; ++i, ++value) *value = rate * *value * own[i % n_outputs_];
      for (int64_t i = 0; linear_[k] && i < leaves * n_outputs_; ++i)
        for (int64_t c = 0; c < n_columns[k]; ++c, ++value) *value = rate * *value * own[i % n_outputs_];
    }
  }

  int64_t n_models_, n_inputs_, n_outputs_;
  std::vector<double> offset_, scale_, intercept_, coefficients_, low_, high_;
  std::vector<int64_t> missing_;
  std::vector<int32_t> depth_;
  std::vector<uint8_t> linear_;
  std::vector<int32_t> columns_;
  std::vector<double> gate_weights_, gate_bias_, leaf_;
  TreeStarts start_;
};

// Predictions (n, n_outputs) at rows (n, n_features); row i is predicted by model[i] of groups[group[i]].
auto predict_many(const std::vector<const Ensembles*>& groups, In1<int64_t> group, In1<int64_t> model, In2<double> rows,
                  int n_threads) {
  const int64_t n = size(rows.shape(0)), n_features = size(rows.shape(1));
  require(!groups.empty(), "ensembles: no models");
  const int64_t n_outputs = groups[0]->n_outputs();
  require(size(group.size()) == n && size(model.size()) == n, "ensembles: group and model need one entry per row");
  for (const Ensembles* own : groups)
    require(own->n_features() == n_features && own->n_outputs() == n_outputs, "ensembles: the models differ in shape");
  std::vector<int64_t> begin;  // of rows with the same model
  for (int64_t i = 0; i < n; ++i) {
    const int64_t g = group.data()[i], m = model.data()[i];
    require(g >= 0 && g < size(groups.size()) && m >= 0 && m < groups[static_cast<size_t>(g)]->n_models(),
            "ensembles: no such model");
    if (i == 0 || g != group.data()[i - 1] || m != model.data()[i - 1]) begin.push_back(i);
  }
  const int64_t n_parts = size(begin.size());
  begin.push_back(n);
  std::vector<double> out(static_cast<size_t>(n * n_outputs));
  run_interruptibly([&](Interrupt* interrupt) {
    for_each_model(n_parts, n_threads, interrupt, [&](int64_t k) {
      const int64_t i = begin[k];
      groups[static_cast<size_t>(group.data()[i])]->predict(model.data()[i], rows.data() + i * n_features,
                                                            begin[k + 1] - i, out.data() + i * n_outputs);
    });
  });
  return array(std::move(out), {static_cast<size_t>(n), static_cast<size_t>(n_outputs)});
}

}  // namespace

void bind_many(nb::module_& m) {
  m.def("ridge_each", &ridge_each, "x"_a.noconvert(), "y"_a.noconvert(), "penalties"_a.noconvert(), "stage"_a,
        "n_threads"_a);
  m.def("boost_each", &boost_each, "x"_a.noconvert(), "y"_a.noconvert(), "coefficients"_a.noconvert(),
        "intercepts"_a.noconvert(), "settings"_a, "loss"_a, "n_rounds"_a, "learning_rate"_a, "n_threads"_a);
  nb::class_<Ensembles>(m, "Ensembles")
      .def(nb::init<In2<double>, In2<double>, In2<double>, In3<double>, In1<int64_t>, In1<int32_t>, In1<uint8_t>,
                    In1<int64_t>, In1<int32_t>, In1<double>, In1<double>, In1<double>, double, In2<double>>(),
           "offset"_a, "scale"_a, "intercept"_a, "coefficients"_a, "missing"_a, "depth"_a, "linear"_a, "n_columns"_a,
           "columns"_a, "gate_weights"_a, "gate_bias"_a, "leaf"_a, "rate"_a, "unit"_a);
  m.def("predict_many", &predict_many, "groups"_a, "group"_a.noconvert(), "model"_a.noconvert(), "rows"_a.noconvert(),
        "n_threads"_a);
}

}  // namespace softboost
