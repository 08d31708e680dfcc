#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stores/stream.h"
#include "support/options.h"

// Data at a URL that is fetched while it is used: room `data` says which files it needs, room
// `stores` brings them, and this puts the two together.
namespace dimred::commands {

struct StreamingOptions {
  double cache = 0;          // GB of shards that may be here
  std::int64_t fetches = 4;  // at a time
};

/// What the table's rows stream_cache and stream_fetches say; nullopt where nothing is streamed.
std::optional<StreamingOptions> streaming_of(const OptionTable& table);

/// The local path that stands for `url` from now on: data sets opened there fetch their TFRecord
/// files. `told` becomes a line about them. `shards_alone`: nothing else of the place is brought.
/// Throws as stores::open_stream(), and std::invalid_argument where the largest file does not fit.
std::filesystem::path open_streamed(const stores::Url& url,
                                    const StreamingOptions& streaming,
                                    bool shards_alone,
                                    const stores::StoreOptions& options,
                                    stores::Transfer& transfer,
                                    std::string& told);

}  // namespace dimred::commands
