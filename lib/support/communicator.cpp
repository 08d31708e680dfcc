#include "support/communicator.h"

namespace dimred {

Communicator& alone() {
  static Alone<Communicator> communicator;
  return communicator;
}

}  // namespace dimred
