#pragma once

#include <optional>
#include <string>

#include "options/options.h"
#include "stores/cache.h"

// Data at a URL that is fetched while it is used: room `data` says which files it needs, room
// `stores` brings them, and this puts the two together.
namespace dimred::commands {

struct StreamingOptions {
  double cache = 0;          // GB of shards that may be here
  std::int64_t fetches = 4;  // at a time
};

/// The table's rows stream_cache and stream_fetches; nullopt where nothing is streamed.
std::optional<StreamingOptions> streaming_of(const OptionTable& table);

/// The local path that stands for `url` from now on: data sets opened there fetch their TFRecord
/// files. `note` becomes a line about them. `shards_alone`: no other file of the folder is
/// downloaded. Throws as stores::open_stream(), and std::invalid_argument where the largest file
/// does not fit.
stores::Brought open_streamed(const stores::Url& url,
                              const StreamingOptions& streaming,
                              bool shards_alone,
                              const stores::StoreOptions& options,
                              std::string& note);

}  // namespace dimred::commands
