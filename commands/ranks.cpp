#include "commands/ranks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "commands/device_memory.h"
#include "commands/run.h"
#include "engine/device/device.h"
#include "support/agreement.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/parallel.h"
#include "support/version.h"

namespace dimred::commands {
namespace {

using distributed::Failure;

/// Ends this process with the others, once, whichever thread learns of the failure first. Threads
/// of a collective that will never end, or a request to a store that hangs, are not waited for:
/// every file that has its name is complete.
class End {
 public:
  End(std::string name, int rank) : name_(std::move(name)), rank_(rank) {}

  [[noreturn]] void with(const Failure& failure) {
    if (ending_.exchange(true)) {
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    if (rank_ == failure.reporting_rank) {
      const bool named = failure.rank >= 0 && failure.rank != rank_;
      const auto whose = named ? formatted("rank {} ", failure.rank) : "";
      report(name_, whose + failure.text, failure.exit_code);
      // The rank that serves the store stays until the others have read it.
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    }
    std::fflush(nullptr);
    std::_Exit(failure.exit_code);
  }

 private:
  std::string name_;
  int rank_;
  std::atomic<bool> ending_ = false;
};

Failure own_failure(int rank, const std::exception& error) {
  const auto [text, code] = error_report_of(error);
  return {.rank = rank, .text = text, .exit_code = code};
}

/// A collective fails because of another rank, which the monitor will know.
Failure cause_of(distributed::Ranks& ranks, double patience, const std::exception& error) {
  auto failure = own_failure(ranks.rank_info.rank, error);
  if (dynamic_cast<const distributed::CollectiveFailed*>(&error) != nullptr) {
    ranks.monitor->suspect();
    if (const auto cause = ranks.monitor->failure(patience)) return *cause;
  }
  auto standing = ranks.monitor->report(failure);
  // An error that all ranks have agreed to throw belongs to no single rank, whichever reported it
  // first.
  if (standing.text == failure.text) standing.rank = failure.rank;
  return standing;
}

using Work = std::function<int(const distributed::Ranks&)>;

/// Names the remedy of an error of torch that names no option; empty: unknown.
std::string advice_on(std::string_view text) {
  const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
  if (says("Expected more than 1 value per channel when training"))
    return "[batch_size] BatchNorm needs several values for each channel, but a pass has one "
           "sample; choose a batch size and gradient_accumulation that leave no single sample at "
           "an epoch's end";
  if (says("cannot reshape tensor of 0 elements"))
    return "[model] batchnorm_statistics = synchronized runs the network also where a rank has no "
           "sample, but the network's view or reshape needs one; write x.flatten(1), or choose a "
           "batch size that divides the samples";
  return {};
}

/// work(ranks), where a device's memory is short with the options that lower its need. `samples`:
/// of a pass, once the options are resolved.
int advised(const std::string& command,
            const Work& work,
            const distributed::Ranks& ranks,
            const std::function<std::int64_t()>& samples) {
  try {
    return work(ranks);
  } catch (const std::runtime_error& error) {  // of a TorchScript module
    if (const auto advice = advice_on(error.what()); !advice.empty())
      throw std::runtime_error(advice);
    throw;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (const auto advice = advice_on(text); !advice.empty()) throw std::runtime_error(advice);
    if (!is_memory_shortage(text)) throw;
    throw std::runtime_error(memory_advice(text, command, samples()));
  }
}

bool is_of_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether `text` has the name as a whole word.
bool names_word(std::string_view text, std::string_view name) {
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const auto end = at + name.size();
    const bool begins = at == 0 || !is_of_a_name(text[at - 1]);
    if (begins && (end == text.size() || !is_of_a_name(text[end]))) return true;
  }
  return false;
}

/// Names the origin of untyped options whose name and value a message has.
std::string origins(const OptionTable& table, std::string_view message) {
  std::string text;
  for (const auto& row : table.rows()) {
    if (row.origin == OptionOrigin::file && !row.given_in.empty() &&
        names_word(message, row.name) && names_word(message, row.value()))
      text += formatted("; {} = {} comes from {}", row.name, row.value(), row.given_in);
  }
  return text;
}

/// A step's samples on one rank, by passes of gradient_accumulation.
std::int64_t samples_of_a_pass(const run::RunOptions& run) {
  return run.batch_size.value_or(0) / std::max<std::int64_t>(1, run.gradient_accumulation);
}

/// Warns of more threads than cores, who wait for each other at every barrier.
void warn_of_threads(std::int64_t threads, Console& console) {
  const auto cores = available_threads();
  if (threads <= cores) return;
  console.warn(
      formatted("{} threads share {}, so training may be many times slower; use --threads 0 for "
                "one thread on each core",
                threads,
                counted(cores, "core")));
}

}  // namespace

int with_ranks(const std::string& name,
               const launch::RankInfo& rank_info,
               const launch::ConnectOptions& options,
               bool on_gpu,
               const Work& work) {
  if (options.check_options) return exit_success;
  if (rank_info.size == 1) return work(distributed::single_process(rank_info));
  End end(name, rank_info.rank);
  distributed::Ranks ranks;
  try {
    ranks = distributed::connect(
        rank_info, options, on_gpu, [&end](const Failure& failure) { end.with(failure); });
  } catch (const distributed::ReportedByRank0&) {
    std::_Exit(exit_environment);
  } catch (const std::exception& error) {
    std::_Exit(report(name, error.what(), exit_environment));
  }
  try {
    const int code = work(ranks);
    ranks.leave();
    return code;
  } catch (const std::exception& error) {
    constexpr double rounds = 3;  // of the monitor, after the timeout
    end.with(cause_of(ranks, options.heartbeat_timeout + rounds, error));
  }
}

int with_ranks(const OptionTable& table, const run::CommonOptions& options, const Work& work) {
  const bool on_gpu = engine::parse_device(options.run.device).is_cuda();
  return with_ranks(
      table.command(), launch::discover(), options.ranks, on_gpu, [&](const auto& ranks) {
        require_same_options(ranks, table);
        auto console = console_of(ranks, /*quiet=*/true);
        warn_of_threads(options.run.threads, console);
        try {
          return advised(
              table.scope(), work, ranks, [&] { return samples_of_a_pass(options.run); });
        } catch (const std::invalid_argument& error) {
          throw std::invalid_argument(error.what() + origins(table, error.what()));
        }
      });
}

void require_same_options(const distributed::Ranks& ranks, const OptionTable& table) {
  // Another build may make its collectives in another order.
  Facts facts{{"the program", formatted("{}, revision {}", version(), revision())}};
  for (const auto& row : table.rows()) {
    if (!row.of_one_rank) facts.emplace_back(row.name, row.show());
  }
  require_agreement(*ranks.communicator, facts);
}

Console console_of(const distributed::Ranks& ranks, bool quiet) {
  if (ranks.rank_info.rank == 0) return Console(quiet);
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  return Console(/*quiet=*/true, nowhere, nowhere);
}

}  // namespace dimred::commands
