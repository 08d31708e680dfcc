#pragma once

#include <filesystem>
#include <string>

#include "engine/setup.h"
#include "options/options.h"
#include "support/console.h"

namespace dimred::run {

inline constexpr auto initialization_file_name = "initialization.json";

/// Origin of a fresh run's weights, instead of the seed alone.
struct TransferOptions {
  std::filesystem::path initialize_from;    // named_weights(); empty: nothing is loaded
  std::string checkpoint_include_patterns;  // models/name_patterns.h; empty: all
  std::string checkpoint_exclude_patterns;  // of these; what is left out stays as drawn
};

void add_transfer_options(OptionTable& table, TransferOptions& options);

/// Loads parameters and buffers, frozen ones too, by name and shape; rank 0 reads, all get them.
/// Says in a few lines, and (unless `folder` is empty) in `folder`/initialization.json by name,
/// what was loaded, left out and unused. Throws std::invalid_argument when a tensor that is not
/// left out is absent from the file or of another shape (the first five), and for a pattern that
/// matches nothing; std::runtime_error, on every rank, as require_variances().
void initialize(engine::Setup& setup,
                const TransferOptions& options,
                const std::filesystem::path& folder,
                Console& console);

/// Sets what a run begins with besides its state: the frozen part of the run that the state is of;
/// where there is none (`resumed_from` empty), initialize(), or all as drawn. `folder` keeps what
/// is frozen.
void begin(engine::Setup& setup,
           const TransferOptions& options,
           const std::filesystem::path& folder,
           const std::filesystem::path& resumed_from,
           Console& console);

}  // namespace dimred::run
