#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options/options.h"
#include "tests/tools/temporary_folder.h"

namespace dimred {

enum class Fruit { apple, pear, quince };

/// One field of every kind and the table over them; fields start at their defaults.
struct Everything {
  std::int64_t batch_size = 64;
  double learning_rate = 0.1;
  std::optional<std::int64_t> epochs;
  std::optional<double> momentum = 0.9;
  bool nesterov = false;
  std::string name = "run";
  std::filesystem::path data;
  std::vector<double> milestones = {1, 2.5};
  Fruit fruit = Fruit::pear;
  OptionTable table{"dimred test", "tries every kind of option"};

  Everything() {
    table.group("Data", {.persists = true});
    table.add("data", &data, "folder of the data");
    table.add("batch_size", &batch_size, "samples of one step", at_least(1));
    table.group("Training");
    table.add("learning_rate", &learning_rate, "of the first step", between_open(0, 10));
    table.add("momentum", &momentum, "of the velocity", Range{0, 1, false, true});
    table.add("epochs", &epochs, "passes over the data", between(1, 1000));
    table.add("nesterov", &nesterov, "look ahead");
    table.add("name", &name, "of the run");
    table.add("milestones", &milestones, "epochs at which the rate falls", at_least(0));
    table.add_choice("fruit",
                     &fruit,
                     "what to eat",
                     {{"apple", Fruit::apple}, {"pear", Fruit::pear}, {"quince", Fruit::quince}});
  }
  Everything(const Everything&) = delete;
  Everything& operator=(const Everything&) = delete;
};

/// Text of the std::invalid_argument that `action` throws; empty when it throws none.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

}  // namespace dimred
