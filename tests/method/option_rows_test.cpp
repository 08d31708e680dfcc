#include "method/option_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "method/make_method.h"
#include "method/method.h"
#include "method/presets.h"
#include "tests/method/quadratic_space.h"
#include "tests/options/idle_rows.h"

namespace dimred::method {
namespace {

/// The end of a dozen steps, on noisy batches whose trials fail at times: all that a step's
/// constants can change.
std::vector<double> path_of(const MethodOptions& options) {
  constexpr int steps = 12;
  const bool all = options.kind == MethodKind::sgd;  // it has no subspace
  QuadraticSpace space(six_curvatures(), first_axes(all ? 0 : 2));
  const auto method = make_method(options, space.block_sizes());
  std::vector<double> path;
  for (int i = 0; i < steps; ++i) {
    int trials = 0;
    space.disturb_gradient = [i](Eigen::VectorXd& g) {
      for (Eigen::Index j = 0; j < g.size(); ++j) g[j] += std::sin(7 * i + 3 * j);
    };
    space.disturb_loss = [i, trials](double loss) mutable {
      return i % 4 == 3 && trials++ < 4 ? loss + 100 : loss;
    };
    method->step(space, static_cast<double>(i) / steps);
    path.insert(path.end(), space.w.begin(), space.w.end());
  }
  return path;
}

/// The rows of the method's constants, over their fields.
struct Rows {
  Preset preset;
  OptionTable table{"dimred test", ""};

  explicit Rows(const MethodOptions& options) {
    preset.method = options;
    add_options(table, preset.method, preset.penalty);
  }
};

/// The penalties are the host's.
bool is_of_the_step(const Rows& rows, const Option& row) {
  const auto& penalty = rows.preset.penalty;
  return row.field != &rows.preset.method.kind && row.field != &penalty.weight_decay &&
         row.field != &penalty.weight_decay_all && row.field != &penalty.sam_radius;
}

struct Tried {
  bool changes = false;  // the path, by one of its values at least
  bool refused = true;   // all of them
};

Tried tried(const Option& row, const MethodOptions& options, const std::vector<double>& before) {
  Tried result;
  for (const auto& value : other_values(row)) {
    Rows rows(options);
    rows.table.give(row.name, value, "test");
    result.changes = result.changes || path_of(rows.preset.method) != before;
    result.refused = result.refused && is_refused(rows.table);
  }
  return result;
}

TEST(MethodRows, ThatAMethodIgnoresAreRefusedAndNoOthers) {
  for (const auto& [name, kind] : method_names()) {
    for (const auto schedule : {Decay::constant, Decay::step}) {
      for (const auto alpha_schedule : {Decay::constant, Decay::step}) {
        auto options = preset("robust").method;
        options.kind = kind;
        options.residual.alpha = 0.05;
        options.schedule = schedule;
        options.alpha_schedule = alpha_schedule;
        const auto before = path_of(options);
        const Rows given(options);
        for (const auto& row : given.table.rows()) {
          if (!is_of_the_step(given, row)) continue;
          const auto [changes, refused] = tried(row, options, before);
          EXPECT_EQ(refused, !changes) << name << ' ' << row.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dimred::method
