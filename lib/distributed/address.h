#pragma once

#include <string>

#include "launch/rank_info.h"

namespace dimred::distributed {

/// The address that the other ranks reach this machine at: the one on the way to rank 0's. Rank 0's
/// own machine may know its name as a loopback address (Debian's 127.0.1.1), which no other can
/// use: then the one on the way out, or the first there is. Returns an empty text if there is no
/// way.
std::string own_address(const launch::RankInfo& rank_info);

/// The address that this rank finds rank 0's store at: rank 0 serves it on own_address() alone, not
/// on all of its machine's, and where the store's name is a loopback address here, so do its
/// machine's other ranks find it there.
std::string store_address(const launch::RankInfo& rank_info);

}  // namespace dimred::distributed
