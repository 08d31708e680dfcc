#include "models/script_operators.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <array>
#include <string>

namespace dimred::models {
namespace {

bool only_computes(std::string_view name) {
  constexpr std::array rooms{"aten::", "prim::", "dimred::"};
  constexpr std::array others{"aten::from_file", "aten::save", "aten::_print"};
  return std::ranges::any_of(rooms, [&](const char* room) { return name.starts_with(room); }) &&
         std::ranges::find(others, name) == others.end() && !name.starts_with("prim::rpc_");
}

bool take_the_others() {
  for (const auto& known : torch::jit::getAllOperators()) {
    if (!only_computes(known->schema().name())) torch::jit::deregisterOperator(known->schema());
  }
  return true;
}

}  // namespace

void allow_only_computing() { [[maybe_unused]] static const bool done = take_the_others(); }

std::string_view unknown_operator(std::string_view error) {
  constexpr std::string_view before = "Unknown builtin op: ";
  const auto at = error.find(before);
  if (at == std::string_view::npos) return {};
  auto name = error.substr(at + before.size());
  name = name.substr(0, name.find_first_of(" \n"));
  while (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

}  // namespace dimred::models
