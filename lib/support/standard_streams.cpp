#include "support/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "support/descriptor.h"

namespace dimred {

void reserve_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is taken. Without one, nobody could be told.
    if (retrying([] { return ::open("/dev/null", O_RDWR); }) != stream) std::_Exit(1);
  }
}

}  // namespace dimred
