#include "python/method_bindings.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>

#include "method/make_method.h"
#include "method/method.h"
#include "method/option_rows.h"
#include "method/presets.h"
#include "method/validate.h"
#include "options/effects.h"
#include "options/options.h"
#include "support/errors.h"
#include "support/suggestion.h"
#include "support/text.h"

namespace dimred::python {
namespace {

namespace nb = nanobind;
using nb::literals::operator""_a;

using Numbers = nb::ndarray<nb::ro, const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A vector [k] as an array of NumPy, which owns its copy.
nb::object array_of(const Eigen::VectorXd& values) {
  auto* copy = new Eigen::VectorXd(values);
  const nb::capsule owner(copy,
                          [](void* held) noexcept { delete static_cast<Eigen::VectorXd*>(held); });
  const auto size = static_cast<std::size_t>(values.size());
  return nb::cast(nb::ndarray<nb::numpy, double, nb::ndim<1>>(copy->data(), {size}, owner));
}

/// A space that an object of Python is: the methods of SubspaceSpace by their names, the vectors as
/// arrays of NumPy, the enumeration as whether running statistics move, set_line's struct as
/// arguments, and project's result as (g_k, g'm, g'g, loss).
class PythonSpace final : public method::SubspaceSpace {
 public:
  PythonSpace(nb::handle host, std::span<const Eigen::Index> block_sizes)
      : host_(host), block_sizes_(block_sizes) {}

  std::span<const Eigen::Index> block_sizes() const override { return block_sizes_; }
  void gradient(method::Buffers buffers) override {
    host_.attr("gradient")(buffers == method::Buffers::move);
  }
  method::Projection project() override {
    const auto result = nb::cast<nb::tuple>(host_.attr("project")());
    const auto g_k = nb::cast<Numbers>(result[0]);
    return {
        .g_k = Eigen::Map<const Eigen::VectorXd>(g_k.data(), static_cast<Eigen::Index>(g_k.size())),
        .gradient_momentum = nb::cast<double>(result[1]),
        .gradient_square = nb::cast<double>(result[2]),
        .loss = nb::cast<double>(result[3])};
  }
  void set_line(const method::Line& line) override {
    host_.attr("set_line")(array_of(line.direction),
                           array_of(line.projected),
                           line.gamma,
                           line.alpha,
                           line.moves_momentum,
                           line.keeps_start);
  }
  void move_to(double t) override { host_.attr("move_to")(t); }
  double loss() override { return nb::cast<double>(host_.attr("loss")()); }
  void subtract_momentum(double alpha) override { host_.attr("subtract_momentum")(alpha); }
  void restore() noexcept override {
    try {
      host_.attr("restore")();
    } catch (const std::exception& error) {  // beside the one that is under way
      PySys_WriteStderr("[dimred] cannot restore the state before the step: %.500s\n",
                        error.what());
    }
  }

 private:
  nb::handle host_;
  std::span<const Eigen::Index> block_sizes_;
};

/// A preset that a step here can take: not schedule-free, which moves the weights between the mean
/// and its iterates. Throws std::invalid_argument for another name, with the valid ones.
method::Preset preset_of_steps(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& preset : method::presets()) {
    if (preset.average.kind == method::AverageKind::schedule_free) {
      require(preset.name != name,
              "[dimred] this optimizer does not support the preset {}; use the package "
              "schedulefree instead",
              name);
    } else if (preset.name == name) {
      return preset;
    } else {
      names.push_back(preset.name);
    }
  }
  refuse("[dimred] preset needs one of {}; received {}{}",
         name_list(names),
         name,
         suggestion(name, names));
}

/// A preset with the numbers and words that a user sets in it; not those of its average, which a
/// step does not take.
method::Preset preset_with(const std::string& name,
                           const std::map<std::string, double>& numbers,
                           const std::map<std::string, std::string>& words) {
  auto preset = preset_of_steps(name);
  OptionTable table("dimred", "");
  table.group("Method", {.chosen_by = "preset"});
  method::add_options(table, preset.method, preset.penalty);
  const auto& rule = table.at(&preset.method.update_rule).name;
  std::vector<std::string> names;
  for (const auto& row : table.rows()) {
    if (row.kind == OptionKind::number || row.kind == OptionKind::integer || row.name == rule)
      names.push_back(row.name);
  }
  const auto give = [&](const std::string& option, const std::string& value) {
    require(std::ranges::find(names, option) != names.end(),
            "[dimred] a hyperparameter is one of {}; received {}{}",
            name_list(names),
            option,
            suggestion(option, names));
    table.give(option, value, "[dimred]");
  };
  for (const auto& [option, value] : numbers) give(option, number_text(value));
  for (const auto& [option, value] : words) give(option, value);
  require_effects(table);
  method::validate(preset);
  return preset;
}

/// A row's value as Python has it.
nb::object object_of(const Option& row) {
  if (row.kind == OptionKind::number) return nb::float_(std::stod(row.value()));
  if (row.kind == OptionKind::integer) return nb::int_(std::stoll(row.value()));
  return nb::str(row.value().c_str());
}

/// All that decides a step, as config.toml of a run of stage 2 says it.
nb::dict options_of(method::Preset preset) {
  OptionTable table("dimred", "");
  method::add_options(table, preset.method, preset.penalty);
  nb::dict options;
  for (const auto& row : table.rows()) options[row.name.c_str()] = object_of(row);
  return options;
}

/// A method and the options that it has from its preset.
class PresetMethod {
 public:
  PresetMethod(const std::string& preset,
               const std::map<std::string, double>& numbers,
               const std::map<std::string, std::string>& words,
               const std::vector<std::int64_t>& block_sizes)
      : preset_(preset_with(preset, numbers, words)),
        block_sizes_(block_sizes.begin(), block_sizes.end()),
        method_(method::make_method(preset_.method, block_sizes_)) {}

  nb::dict step(nb::handle host, double progress) {
    PythonSpace space(host, block_sizes_);
    const auto report = method_->step(space, progress);
    nb::dict said;
    said["loss"] = report.loss;
    said["slope"] = report.slope;
    said["curvature"] = report.curvature;
    said["step_size"] = report.step_size;
    said["trials"] = report.search.trials;
    said["accepted"] = report.search.outcome == method::SearchOutcome::accepted;
    said["update"] = method::name(report.update);
    said["reset"] = report.reset;
    said["residual_left_out"] = report.residual_left_out;
    said["not_finite"] = report.not_finite;
    return said;
  }

  method::Method::StateDict state_dict() const { return method_->state_dict(); }
  void restore(const method::Method::StateDict& state) { method_->restore(state); }
  const method::Preset& preset() const { return preset_; }

 private:
  method::Preset preset_;
  std::vector<Eigen::Index> block_sizes_;
  std::unique_ptr<method::Method> method_;
};

}  // namespace

void bind_method(nb::module_& module) {
  nb::class_<PresetMethod>(module, "Method")
      .def(nb::init<const std::string&,
                    const std::map<std::string, double>&,
                    const std::map<std::string, std::string>&,
                    const std::vector<std::int64_t>&>(),
           "preset"_a,
           "numbers"_a,
           "words"_a,
           "block_sizes"_a)
      .def("step", &PresetMethod::step, "space"_a, "progress"_a)
      .def("state_dict", &PresetMethod::state_dict)
      .def("restore", &PresetMethod::restore, "state"_a)
      .def_prop_ro("options",
                   [](const PresetMethod& method) { return options_of(method.preset()); })
      .def_prop_ro("weight_decay",
                   [](const PresetMethod& method) { return method.preset().penalty.weight_decay; })
      .def_prop_ro(
          "weight_decay_all",
          [](const PresetMethod& method) { return method.preset().penalty.weight_decay_all; })
      .def_prop_ro("sam_radius",
                   [](const PresetMethod& method) { return method.preset().penalty.sam_radius; })
      .def_prop_ro("needs_basis",
                   [](const PresetMethod& method) { return method.preset().basis.has_value(); })
      .def_prop_ro("depends_on_length", [](const PresetMethod& method) {
        return method::depends_on_length(method.preset().method);
      });
}

}  // namespace dimred::python
