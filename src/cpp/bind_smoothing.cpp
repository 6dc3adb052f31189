// The bank of exponential smoothers.
#include "bindings.hpp"

namespace softboost {

void bind_smoothing(nb::module_& m) {
  m.def(
      "smoothing_bank",
      [](In1<double> y, In1<int64_t> indptr, In1<int64_t> seasons, int64_t h, In1<int64_t> first, int64_t n_origins,
         int64_t stride, int64_t n_evidence, bool with_columns, int n_threads) {
        const size_t n = first.size(), o = static_cast<size_t>(n_origins), v = 4 * (seasons.size() + 1);
        int64_t longest = 1;
        for (size_t s = 0; s < seasons.size(); ++s) longest = std::max(longest, seasons.data()[s]);
        const size_t c = with_columns ? static_cast<size_t>(current_table->smoothing_columns(h, longest)) : 0;
        std::vector<double> forecast(n * o * static_cast<size_t>(h)), unit(n * o), logs(n * o), views(n * o * v);
        std::vector<float> columns(n * o * c);
        run_interruptibly([&](Interrupt* interrupt) {
          current_table->smoothing_bank(y.data(), indptr.data(), size(n), seasons.data(), size(seasons.size()), h,
                                        first.data(), n_origins, stride, n_evidence, n_threads, interrupt,
                                        forecast.data(), unit.data(), logs.data(), views.data(),
                                        with_columns ? columns.data() : nullptr);
        });
        return nb::make_tuple(array(std::move(forecast), {n, o, static_cast<size_t>(h)}),
                              array(std::move(unit), {n, o}), array(std::move(logs), {n, o}),
                              array(std::move(views), {n, o, v}), array(std::move(columns), {n, o, c}));
      },
      "y"_a.noconvert(), "indptr"_a.noconvert(), "seasons"_a.noconvert(), "h"_a, "first"_a.noconvert(), "n_origins"_a,
      "stride"_a, "n_evidence"_a, "with_columns"_a, "n_threads"_a);
}

}  // namespace softboost
