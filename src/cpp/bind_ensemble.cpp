// A fitted model for prediction. It validates its arrays, because they may come from a file.
#include "bindings.hpp"

namespace softboost {

namespace {

void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

// The arrays of a fitted model, validated once and stored, so that prediction passes only X.
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
    require(size(scale_.size()) == n_inputs, "ensemble: scale and offset have different lengths");
    require(size(low_.size()) == n_inputs && size(high_.size()) == n_inputs,
            "ensemble: low and high must have one entry per input");
    require(size(coefficients.shape(0)) == n_outputs && size(coefficients.shape(1)) == n_inputs,
            "ensemble: coefficients must have shape (n_outputs, n_inputs)");
    require(size(linear_.size()) == n_trees && size(n_columns.size()) == n_trees,
            "ensemble: depth, linear and n_columns must have one entry per tree");
    column_start_.assign(1, 0);
    weight_start_.assign(1, 0);
    bias_start_.assign(1, 0);
    leaf_start_.assign(1, 0);
    for (int64_t k = 0; k < n_trees; ++k) {
      require(depth_[k] >= 1 && depth_[k] <= kMaxDepth, "ensemble: depth outside 1 to MAX_DEPTH");
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
    require(!weight || weight->shape(0) == rows.shape(0), "ensemble: weight must have one entry per row");
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
    require(size(rows.shape(1)) == view_.n_inputs, "ensemble: rows and model have different numbers of columns");
  }

  std::vector<T> offset_, scale_, low_, high_, intercept_, coefficients_;
  std::vector<int32_t> depth_;
  std::vector<uint8_t> linear_;
  std::vector<int32_t> columns_;
  std::vector<T> gate_weights_, gate_bias_, leaf_;
  std::vector<int64_t> column_start_, weight_start_, bias_start_, leaf_start_;
  Ensemble<T> view_{};
};

template <typename T>
void register_ensemble(nb::module_& m, const char* name) {
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

}  // namespace

void bind_ensemble(nb::module_& m) {
  register_ensemble<float>(m, "Ensemble32");
  register_ensemble<double>(m, "Ensemble64");
}

}  // namespace softboost
