#pragma once

#include "support/list_files.h"

namespace dimred::checkpoints {

using dimred::list_files;
using dimred::natural_less;

}  // namespace dimred::checkpoints
