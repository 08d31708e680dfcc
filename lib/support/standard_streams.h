#pragma once

namespace dimred {

/// Opens /dev/null in the place of each closed one of the descriptors 0 to 2, so that no file of
/// ours takes its number and the printed texts. For the first line of a program.
void reserve_standard_streams();

}  // namespace dimred
