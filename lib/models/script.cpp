#include "models/script.h"

#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "checkpoints/read_pickle.h"
#include "models/script_forward.h"
#include "models/script_operators.h"
#include "models/script_state.h"
#include "support/errors.h"
#include "support/time_limit.h"

namespace dimred::models {
namespace {

namespace jit = torch::jit;

/// Child modules of the same names, whose parameters and buffers are handles on the script's own.
void mirror(torch::nn::Module& target, const jit::Module& source) {
  for (const auto& parameter : source.named_parameters(/*recurse=*/false))
    target.register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
  for (const auto& buffer : source.named_buffers(/*recurse=*/false))
    target.register_buffer(buffer.name, buffer.value);
  for (const auto& child : source.named_children()) {
    const auto kind = child.value.type()->name();
    auto module = std::make_shared<torch::nn::Module>(kind ? kind->name() : "Module");
    mirror(*module, child.value);
    target.register_module(child.name, std::move(module));
  }
}

struct ScriptNetwork final : Network {
  explicit ScriptNetwork(const jit::Module& source) : module(source), run(source) {
    mirror(*this, source);
    operator_norms = std::make_shared<OperatorNorms>();
  }

  torch::Tensor forward(torch::Tensor images) override {
    const auto output = run(images, *operator_norms);
    require(output.isTensor(),
            "[model] needs a forward that returns only logits [batch, classes], received a {}; "
            "wrap the module in a module that returns only the logits",
            output.tagKind());
    return output.toTensor();
  }

  void train(bool on) override {
    Network::train(on);
    module.train(on);
  }

  jit::Module module;
  ScriptForward run;
};

constexpr auto remedy = "save a TorchScript module with torch.jit.script(model).save(\"model.pt\")";

jit::Module read_module(const std::string& file) {
  require(std::filesystem::is_regular_file(file), "[model] no such file: {}", file);
  try {
    // torch does not compare the records' CRCs.
    checkpoints::read_pickle("archive", "model", file, [](auto) {});
  } catch (const checkpoints::Unreadable& error) {
    refuse("{}; {}", error.what(), remedy);
  }
  allow_only_computing();
  try {
    return jit::load(file, torch::kCPU);
  } catch (const std::exception& error) {  // torch's own text is about its archive's parts
    const auto name = unknown_operator(error.what());
    require(name.empty(),
            "[model] {} uses the operator {}; a module may use only operators that compute (aten, "
            "prim), not operators for files, processes or other machines",
            file,
            name);
    refuse(
        "[model] {} is not a TorchScript module, but perhaps a state dict or a pickled module; {}",
        file,
        remedy);
  }
}

/// Runs until the module has been tried; null: nobody has said what to do when it takes too long.
std::unique_ptr<TimeLimit> limit_of(const std::string& file) {
  const auto& host = script_host();
  if (!host.end) return nullptr;
  return std::make_unique<TimeLimit>(host.timeout, [file, seconds = host.timeout, end = host.end] {
    end(
        formatted("[model] the module {} has not finished its first passes within {} s; a larger "
                  "--module_timeout may help",
                  file,
                  seconds));
  });
}

void say_once(const std::string& text) {
  static std::set<std::string> said;
  if (script_host().say && said.insert(text).second) script_host().say(text);
}

void check_parameters(const Network& network, const std::string& file) {
  std::map<const void*, std::string> owners;
  const auto parameters = network.named_parameters();
  require(!parameters.is_empty(),
          "[model] {} has no parameters; script the model itself, without "
          "torch.jit.freeze or optimize_for_inference",
          file);
  for (const auto& item : parameters) {
    const auto& tensor = item.value();
    require(tensor.scalar_type() == torch::kFloat32,
            "[model] {}: needs float32 parameters, received {} of type {}; call model.float() "
            "before scripting",
            file,
            item.key(),
            tensor.scalar_type());
    require(tensor.requires_grad(),
            "[model] {}: needs trainable parameters, received {} with requires_grad = False; make "
            "this parameter a buffer, or call requires_grad_(True)",
            file,
            item.key());
    const auto [other, is_new] = owners.emplace(tensor.storage().data(), item.key());
    require(is_new || tensor.numel() == 0,
            "[model] {}: needs a separate storage for each parameter, received {} and {}, which "
            "share one storage (tied weights); clone one of the two",
            file,
            other->second,
            item.key());
  }
}

void check_buffers(const Network& network, const std::string& file) {
  for (const auto& item : network.named_buffers()) {
    const auto type = item.value().scalar_type();
    require(type == torch::kFloat32 || type == torch::kInt64,
            "[model] {}: needs buffers of float32 or int64, received {} of type {}; convert the "
            "buffer, or make it a plain attribute",
            file,
            item.key(),
            type);
    require(torch::isfinite(item.value()).all().item<bool>(),
            "[model] {}: needs finite buffers, received infinity or NaN in {}, which no state "
            "keeps; make a mask in forward, or give it a large number such as -1e9",
            file,
            item.key());
  }
}

/// Logits of two images; what the network cannot do with them is the caller's fault.
torch::Tensor try_images(Network& network, const torch::Tensor& images, const std::string& file) {
  try {
    return network.forward(images);
  } catch (const std::runtime_error& error) {
    const auto shape = images.sizes();
    refuse("{} ({}, on images {} x {} x {})", error.what(), file, shape[1], shape[2], shape[3]);
  }
}

void check_logits(const torch::Tensor& logits, std::int64_t classes, const std::string& file) {
  const bool shaped = logits.dim() == 2 && logits.size(0) == 2 && logits.is_floating_point() &&
                      (classes == 0 || logits.size(1) == classes);
  require(shaped,
          "[model] {}: forward needs to return logits [batch, {}], received {} {} for 2 images",
          file,
          classes == 0 ? "classes" : std::to_string(classes),
          logits.scalar_type(),
          logits.sizes());
}

using Values = std::vector<torch::Tensor>;

Values values_of(const Network& network) {
  Values values;
  for (const auto& buffer : network.buffers()) values.push_back(buffer.clone());
  return values;
}

/// Each image's logits must be its own: not so of a BatchNorm without running statistics, or a
/// module traced for one batch size.
void check_independence(Network& network,
                        const torch::Tensor& images,
                        const torch::Tensor& logits,
                        const std::string& file) {
  torch::Tensor alone;
  try {
    alone = network.forward(images.narrow(0, 0, 1));
  } catch (const std::runtime_error& error) {
    refuse(
        "{} ({} fails with one image, but not with two images; perhaps the module was traced with "
        "two images, or has a BatchNorm without running statistics)",
        error.what(),
        file);
  }
  constexpr double rounding = 1e-3;  // of the largest: a deep network that is new has logits of 1e9
  const auto first = logits.narrow(0, 0, 1);
  const auto largest = first.isfinite().all().item<bool>() ? first.abs().max().item<double>() : 1.0;
  const bool same =
      alone.sizes() == first.sizes() &&
      torch::allclose(
          alone, first, rounding, rounding * std::max(1.0, largest), /*equal_nan=*/true);
  require(same,
          "[model] in evaluation, the logits of {} depend on the other images of the batch, as in "
          "a BatchNorm without running statistics; use track_running_stats=True",
          file);
}

/// Evaluation must be a function of the images: traced in train mode, it is not.
void check_evaluation(Network& network, const torch::Tensor& images, const std::string& file) {
  const auto before = values_of(network);
  const auto first = try_images(network, images, file);
  const auto second = try_images(network, images, file);
  bool same = torch::allclose(first, second, 0, 0, /*equal_nan=*/true);
  const auto buffers = network.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    same = same && torch::equal(buffers[i], before[i]);
  require(same,
          "[model] {} draws random numbers or changes buffers in evaluation, as a module that was "
          "traced in training mode does; use torch.jit.script, or trace after model.eval()",
          file);
  check_independence(network, images, first, file);
}

/// The loss takes the softmax of logits itself: of probabilities it can fall but a little.
std::string softmax_warning(const torch::Tensor& outputs) {
  constexpr double rounding = 1e-4;
  const auto sum_to_one = [](const torch::Tensor& values) {
    return values.size(1) > 1 && values.min().item<double>() >= 0 &&
           torch::allclose(values.sum(1), torch::ones({values.size(0)}), rounding, rounding);
  };
  const auto values = outputs.detach().to(torch::kFloat32);
  if (sum_to_one(values))
    return "ends in a softmax, but the loss applies a softmax too, so training will be slow and "
           "stop early; return the logits";
  if (sum_to_one(values.exp()))
    return "ends in a log-softmax, which costs time and changes no result, because the loss "
           "applies a log-softmax too; return the logits";
  return {};
}

/// One pass in train mode shows which buffers BatchNorm moves; all get their values back.
void learn_buffers(ScriptNetwork& network, const torch::Tensor& images, const std::string& file) {
  const auto before = values_of(network);
  const UnsavedState unsaved(network.module);
  try_images(network, images, file);
  const auto moved_name = unsaved.difference(UnsavedState(network.module));
  require(moved_name.empty(),
          "[model] {}{}",
          file,
          unsaved.is_buffer(moved_name)
              ? formatted(": needs buffers that change in place, but training replaces the buffer "
                          "{}; write self.{}.copy_(...)",
                          moved_name,
                          moved_name)
              : formatted(": needs state in buffers, but training changes the attribute {}, which "
                          "no resume state keeps; make the attribute a buffer with "
                          "register_buffer, and change the buffer in place",
                          moved_name));
  auto& norms = *network.operator_norms;
  const auto buffers = network.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& buffer = buffers[i];
    const bool moved = !torch::equal(buffer, before[i]);
    if (moved && !buffer.is_floating_point()) norms.counters.push_back(buffer);
    if (moved && buffer.is_floating_point() && !norms.has(buffer)) norms.others.push_back(buffer);
    if (!moved && buffer.is_floating_point() && !norms.has(buffer))
      norms.constants.push_back(buffer);
    buffer.copy_(before[i]);
  }
}

}  // namespace

ScriptHost& script_host() {
  static ScriptHost host;
  return host;
}

bool is_script(const std::string& model) {
  constexpr std::array<std::string_view, 4> endings{".pt", ".pth", ".ts", ".torchscript"};
  if (model.find('/') != std::string::npos) return true;
  return std::ranges::any_of(endings, [&](auto ending) { return model.ends_with(ending); });
}

std::shared_ptr<Network> load_script(const std::string& file,
                                     const InputShape& input,
                                     std::int64_t classes) {
  say_once(
      formatted("{} is a TorchScript module: its code runs with your permissions, but cannot use "
                "operators for files and processes (docs/explanation/threat_model.md)",
                file));
  const auto limit = limit_of(file);
  auto network = std::make_shared<ScriptNetwork>(read_module(file));
  check_parameters(*network, file);
  check_buffers(*network, file);
  const torch::NoGradGuard no_grad;
  const auto images = torch::randn({2, input.channels, input.height, input.width});
  network->train(false);
  const auto logits = try_images(*network, images, file);
  check_logits(logits, classes, file);
  if (const auto warning = softmax_warning(logits); !warning.empty())
    say_once(formatted("warning: {} {}", file, warning));
  check_evaluation(*network, images, file);
  network->train(true);
  learn_buffers(*network, images, file);
  return network;
}

}  // namespace dimred::models
