#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <random>
#include <string>

#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {

/// Calls check(bit) with `path` holding one flipped bit: every bit of its first `head` bytes, then
/// `spread` random ones of the whole file. Each is put back.
template <class Check>
void for_each_flipped_bit(const std::filesystem::path& path,
                          std::size_t head,
                          int spread,
                          Check check) {
  const std::string original = text_of_file(path);
  const auto put_byte = [&](std::size_t at, char byte) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  };
  const auto flip = [&](std::size_t bit) {
    const char byte = original[bit / 8];
    put_byte(bit / 8, static_cast<char>(byte ^ 1 << bit % 8));
    check(bit);
    put_byte(bit / 8, byte);
  };
  std::mt19937_64 random(7);
  for (std::size_t bit = 0; bit < std::min(head, original.size()) * 8; ++bit) flip(bit);
  for (int i = 0; i < spread; ++i) flip(random() % (original.size() * 8));
}

}  // namespace dimred::checkpoints
