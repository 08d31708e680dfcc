#pragma once

#include <string>
#include <vector>

// `dimred inspect --scale M=25.6e6 k=32 R=8`: what the method costs on R ranks.
namespace dimred::commands {

/// `arguments` with the words that follow --scale as its one value: "--scale=M=25.6e6 k=32 R=8".
std::vector<std::string> join_scale_words(const std::vector<std::string>& arguments);

/// The table for these key=value words. Throws std::invalid_argument("--scale: key: rule, received
/// value"), for an unknown key with the nearest one.
std::string inspect_scale(const std::string& words);

/// The keys, a line each, as a part of --help.
std::string scale_help();

}  // namespace dimred::commands
