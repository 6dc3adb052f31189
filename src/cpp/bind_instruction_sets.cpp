// Selects the build of the kernels: the widest instruction set of this processor, or a named one.
#include "bindings.hpp"

namespace softboost {

namespace {

std::vector<const KernelTable*> available_tables() {
  std::vector<const KernelTable*> tables{&baseline::kernel_table()};
#ifdef SB_X86_DISPATCH
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    tables.push_back(&avx2::kernel_table());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    tables.push_back(&avx512::kernel_table());
#endif
  return tables;
}

}  // namespace

const KernelTable* current_table = available_tables().back();

void bind_instruction_sets(nb::module_& m) {
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
        throw nb::value_error("the instruction set is not available on this processor or in this build");
      },
      "name"_a);
}

}  // namespace softboost
