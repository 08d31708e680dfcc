#include "models/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "support/errors.h"
#include "support/printable.h"
#include "support/suggestion.h"

namespace dimred::models {
namespace {

constexpr std::string_view aten = "aten::";

/// All forms ("mean", "mean.dim") of ATen's operator of that name which give new tensors.
std::vector<c10::OperatorHandle> forms_of(const std::string& name) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> forms;
  for (const auto& candidate : dispatcher.getAllOpNames()) {
    if (candidate.name != formatted("{}{}", aten, name)) continue;
    const auto found = dispatcher.findSchema(candidate);
    if (found && !found->schema().is_mutable()) forms.push_back(*found);
  }
  return forms;
}

/// The other names there are, for a suggestion.
std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& candidate : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!candidate.name.starts_with(aten)) continue;
    const auto name = candidate.name.substr(aten.size());
    if (name.front() != '_' && name.back() != '_') names.push_back(name);
  }
  return names;
}

/// torch::nn::Linear of C++ calls addmm where Python's calls linear.
std::vector<std::string> meant(std::vector<std::string> names) {
  if (std::ranges::find(names, "linear") != names.end()) names.emplace_back("addmm");
  return names;
}

void require_operators(const char* list, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (forms_of(name).empty())
      refuse("[precision] {} needs ATen operators that return new tensors, received {}{}",
             list,
             printable(name),
             suggestion(name, operator_names()));
  }
}

/// Has running statistics, which an operator moves in place: a cast copy would be moved instead.
bool is_normalisation(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(),
                             [](const auto& one) { return one.name() == "running_mean"; });
}

/// Casts floating-point arguments, then runs the operator without autocast: what LibTorch's own
/// wrappers do (ATen/autocast_mode.h), for any operator.
struct CastKernel final : c10::OperatorKernel {
  CastKernel(torch::DeviceType on, bool to_float32, bool first_only)
      : device(on), wide(to_float32), input_only(first_only) {}

  void operator()(const c10::OperatorHandle& op,
                  c10::DispatchKeySet /*keys*/,
                  torch::jit::Stack* stack) const {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(
        at::autocast::get_autocast_dispatch_key_from_device_type(device));
    const auto type = wide ? torch::kFloat32 : at::autocast::get_autocast_dtype(device);
    const auto count = op.schema().arguments().size();
    const auto cast = input_only ? std::min<std::size_t>(1, count) : count;
    const auto first = stack->end() - count;
    std::for_each(first, first + cast, [&](c10::IValue& value) {
      if (value.isTensor()) value = at::autocast::cached_cast(type, value.toTensor(), device);
      if (value.isTensorList()) {
        auto tensors = value.toTensorVector();
        for (auto& tensor : tensors) tensor = at::autocast::cached_cast(type, tensor, device);
        value = std::move(tensors);
      }
    });
    op.callBoxed(*stack);
  }

  torch::DeviceType device;
  bool wide;        // to float32; else to the type of the scope
  bool input_only;  // the first argument alone
};

struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

torch::ScalarType type_of(Precision precision) {
  return precision == Precision::float16 ? torch::kFloat16 : torch::kBFloat16;
}

}  // namespace

std::string name_of(Precision precision) {
  constexpr std::array names{"float32", "bfloat16", "float16"};  // in the order of Precision
  return names.at(static_cast<std::size_t>(precision));
}

void validate(const AmpLists& lists) {
  require_operators("amp_allow", lists.allow);
  require_operators("amp_deny", lists.deny);
  const auto denied = meant(lists.deny);
  for (const auto& name : meant(lists.allow)) {
    require(std::ranges::find(denied, name) == denied.end(),
            "[precision] needs each operator in only one list, received {} in both amp_allow and "
            "amp_deny",
            name);
  }
}

/// One backend's casts; its end puts LibTorch's own kernels back.
struct AmpCasts::Registration {
  explicit Registration(torch::DeviceType on)
      : device(on),
        library(torch::Library::IMPL,
                "aten",
                at::autocast::get_autocast_dispatch_key_from_device_type(on),
                __FILE__,
                __LINE__) {}

  void add(const std::vector<std::string>& names, bool wide) {
    for (const auto& name : meant(names)) {
      for (const auto& form : forms_of(name)) {
        const auto& full = form.operator_name();
        const auto text = full.overload_name.empty()
                              ? full.name
                              : formatted("{}.{}", full.name, full.overload_name);
        library.impl(text.c_str(),
                     torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CastKernel>(
                         device, wide, is_normalisation(form.schema()))));
      }
    }
  }

  torch::DeviceType device;
  torch::Library library;
};

AmpCasts::AmpCasts(const AmpLists& lists) {
  validate(lists);
  if (lists.empty()) return;
  Silence silence;  // "Overriding a previously registered kernel": that is the purpose
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  for (const auto device : {torch::kCPU, torch::kCUDA}) {
    registrations_.push_back(std::make_unique<Registration>(device));
    registrations_.back()->add(lists.allow, /*wide=*/false);
    registrations_.back()->add(lists.deny, /*wide=*/true);
  }
}

AmpCasts::~AmpCasts() = default;

AutocastScope::AutocastScope(Precision precision, torch::DeviceType device)
    : enabled_(precision != Precision::float32), device_(device) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, type_of(precision));
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace dimred::models
