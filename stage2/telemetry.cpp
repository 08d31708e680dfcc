#include "stage2/telemetry.h"

#include <iomanip>
#include <sstream>

#include "run/curve.h"
#include "support/counted.h"
#include "support/errors.h"

namespace dimred::stage2 {
namespace {

constexpr auto header =
    "epoch,step,loss,slope,trials,step_size,curvature,update,reset,residual_left_out,"
    "direction_norm,residual_norm,outcome,alpha\n";

}  // namespace

StepLog::StepLog(const run::LineFile& file, const run::FilePrefix& prefix)
    : path_(file.path), out_(run::open_csv(path_, header, prefix)), events_(file) {}

void StepLog::append(const run::Position& position, const method::StepReport& report) {
  if (path_.empty()) return;
  std::ostringstream line;
  line << std::setprecision(9) << position.epoch + 1 << ',' << position.step + 1 << ','
       << report.loss << ',' << report.slope << ',' << report.search.trials << ','
       << report.step_size << ',' << report.curvature << ',' << name(report.update) << ','
       << report.reset << ',' << report.residual_left_out << ',' << report.direction_norm << ','
       << report.residual_norm << ','
       << (report.not_finite ? "not_finite" : name(report.search.outcome)) << ',' << report.alpha
       << '\n';
  out_ << line.str();
  events_.append(line.str());
}

run::FilePrefix StepLog::prefix() {
  if (path_.empty()) return {};
  out_.flush();
  require_environment(out_.good(), "[stage2] cannot write {}; is the disk full?", path_);
  return run::prefix_of(path_);
}

void StepCounts::add(const method::StepReport& report) {
  ++steps;
  trials += report.search.trials;
  failed += report.search.outcome != method::SearchOutcome::accepted ? 1 : 0;
  skipped += report.update == method::UpdateOutcome::skipped ? 1 : 0;
  reset += report.reset ? 1 : 0;
}

std::string StepCounts::describe() const {
  if (trials == 0 && failed == 0) return formatted("          {}", counted(steps, "step"));
  return formatted("          {}, {}, {} failed, {} of H skipped, {}",
                   counted(steps, "step"),
                   counted(trials, "trial"),
                   failed,
                   counted(skipped, "update"),
                   counted(reset, "reset"));
}

}  // namespace dimred::stage2
