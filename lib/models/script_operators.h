#pragma once

#include <string_view>

namespace dimred::models {

/// Takes from TorchScript, for the rest of this process, all operators outside the computing
/// namespaces (aten, prim and our own), and of these the few that touch files, other processes or
/// the terminal: aten::from_file, aten::save, aten::_print, prim::rpc_*. Before a module is loaded,
/// since loading runs code of the file already (default arguments, __setstate__), which no look at
/// the loaded graph would find in time. Call it as often as you like; the first takes 0.1 s.
void allow_only_computing();

/// The operator that a text of TorchScript's compiler says it does not know; empty: none.
std::string_view unknown_operator(std::string_view error);

}  // namespace dimred::models
