#include "support/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/temporary_folder.h"

namespace dimred {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Kernels from 5.14 on.
TEST(MappedFile, SaysThatAFileWasCutShort) {
  const TemporaryFolder folder;
  const auto path = folder.write("shard", std::string(5 * 4096, 'x'));
  const MappedFile file(path);
  file.fetch(file.bytes());
  std::filesystem::resize_file(path, 4096);
  file.fetch(file.bytes().first(4000));
  EXPECT_THAT([&] { file.fetch(file.bytes().subspan(3 * 4096 + 5, 10)); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("shard, offset 12293: "),
                        EndsWith("the file became shorter while dimred read it"))));
}

}  // namespace
}  // namespace dimred
