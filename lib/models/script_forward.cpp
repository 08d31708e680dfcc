#include "models/script_forward.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/print_handler.h>

#include "support/console.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred::models {
namespace {

namespace jit = torch::jit;

void replace_batch_norms(jit::Block* block) {
  const auto ours = c10::Symbol::fromQualString(batch_norm_operator);
  for (auto position = block->nodes().begin(); position != block->nodes().end();) {
    auto* node = *position++;
    for (auto* inner : node->blocks()) replace_batch_norms(inner);
    if (node->kind() != c10::aten::batch_norm) continue;
    node->replaceWithNewSymbol(ours);
    node->destroy();
  }
}

/// The interpreter tells of the graph's stack first; what happened is behind the last "Error: ".
std::string reason_of(const std::exception& error) {
  std::string text = error.what();
  const auto last = text.rfind("Error: ");
  if (last != std::string::npos) text.erase(0, last + 7);
  return head_line(text);
}

/// aten::warn, which scripted functions of PyTorch's call, too.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    put_text(stderr, formatted("warning: {}\n", warning.msg()));
  }
};

}  // namespace

ScriptForward::ScriptForward(const jit::Module& module) : module_(module) {
  const auto method = module.find_method("forward");
  require(method.has_value(), "[model] needs a module with a forward method");
  auto& function = method->function();
  const auto& arguments = function.getSchema().arguments();  // self, images, ...
  require(arguments.size() >= 2, "[model] needs forward(images), received forward()");
  for (std::size_t i = 2; i < arguments.size(); ++i)
    require(arguments[i].default_value().has_value(),
            "[model] needs forward(images), received a forward that also needs {}",
            arguments[i].name());
  function.ensure_defined();
  auto graph = jit::toGraphFunction(function).graph()->copy();
  jit::Inline(*graph);
  replace_batch_norms(graph->block());
  function_ = std::make_unique<jit::GraphFunction>(
      "forward", std::move(graph), nullptr, jit::ExecutorExecutionMode::SIMPLE);
  function_->setSchema(function.getSchema());
  function_->_set_ignore_amp(true);  // the dispatcher's autocast does it, as in eager mode
}

torch::IValue ScriptForward::operator()(const torch::Tensor& images, OperatorNorms& norms) {
  const OperatorNormsScope scope(norms);
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard printable_warnings(&warnings);
  jit::setPrintHandler([](const std::string& text) { put_text(stdout, text); });
  try {
    return (*function_)({module_._ivalue(), images});
  } catch (const std::exception& error) {
    fail_environment("[model] the module's forward failed: {}", reason_of(error));
  }
}

}  // namespace dimred::models
