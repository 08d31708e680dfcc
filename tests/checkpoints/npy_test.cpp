#include "checkpoints/npy.h"

#include <gtest/gtest.h>

#include "support/formatted.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::checkpoints {
namespace {

class Npy : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    put_file(folder_ / "a.npy", bytes);
    return folder_ / "a.npy";
  }

  /// Text of the error for a file of these bytes.
  std::string error(const std::string& bytes) const {
    return thrown<std::runtime_error>([&] { read_npy_header(write(bytes)); });
  }

  TemporaryFolder folder_;
};

constexpr const char* read = "no exception";

std::string file_of(const std::string& dict, std::size_t data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(version);
  bytes += '\0';
  bytes += static_cast<char>(dict.size() % 256);
  bytes += static_cast<char>(dict.size() / 256);
  if (version > 1) bytes += std::string(2, '\0');
  return bytes + dict + std::string(data, '\0');
}

std::string dict_of(const std::string& shape,
                    const std::string& type = "<f4",
                    const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

TEST_F(Npy, ReadsWhatNumpyWrites) {
  const NpyHeader header = read_npy_header(write(file_of(dict_of("(3, 5)"), 60)));
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{3, 5}));
  EXPECT_FALSE(header.fortran_order);
  EXPECT_EQ(header.item_bytes, 4);
  EXPECT_EQ(header.data_offset, 10 + std::ssize(dict_of("(3, 5)")));
}

TEST_F(Npy, ReadsFortranOrderFloat64AndLaterVersions) {
  for (const int version : {1, 2, 3}) {
    const std::string dict = dict_of("(3, 5)", "<f8", "True");
    const NpyHeader header = read_npy_header(write(file_of(dict, 120, version)));
    EXPECT_TRUE(header.fortran_order);
    EXPECT_EQ(header.item_bytes, 8);
    EXPECT_EQ(header.data_offset, (version == 1 ? 10 : 12) + std::ssize(dict));
  }
}

TEST_F(Npy, ReadsKeysInAnyOrderAndScalars) {
  EXPECT_EQ(error(file_of("{\"shape\":(2,),'descr':'<f4','fortran_order':False}", 8)), read);
  EXPECT_TRUE(read_npy_header(write(file_of(dict_of("()"), 4))).shape.empty());
  EXPECT_EQ(error(file_of(dict_of("(0, 7)"), 0)), read);
}

TEST_F(Npy, RefusesDamagedFiles) {
  const std::string good = file_of(dict_of("(3, 5)"), 60);
  EXPECT_NE(error(good.substr(0, 9)).find("12 bytes, received 9"), std::string::npos);
  EXPECT_NE(error(good.substr(0, 12)).find("is cut off or damaged"), std::string::npos);
  EXPECT_NE(error(good.substr(0, 40)).find("is cut off or damaged"), std::string::npos);
  EXPECT_NE(error(good.substr(0, good.size() - 1))
                .find("needs 60 bytes of data for shape (3, 5), received 59"),
            std::string::npos);
  EXPECT_NE(error(good + '\0').find("received 61"), std::string::npos);
  EXPECT_NE(error("P" + good.substr(1)).find("NUMPY"), std::string::npos);
  EXPECT_NE(error("").find("received 0"), std::string::npos);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_NE(error(good.substr(0, length)), read) << length;
  }
}

TEST_F(Npy, RefusesShapesThatOverflow) {
  EXPECT_NE(error(file_of(dict_of("(4294967296, 4294967296)"), 0)).find("less than 2^63 bytes"),
            std::string::npos);
  EXPECT_NE(error(file_of(dict_of("(2305843009213693952,)"), 0)).find("less than 2^63 bytes"),
            std::string::npos);
  EXPECT_NE(error(file_of(dict_of("(99999999999999999999,)"), 0)).find("dimensions >= 0"),
            std::string::npos);
  EXPECT_NE(error(file_of(dict_of("(-1, 4)"), 0)).find("dimensions >= 0"), std::string::npos);
  // 0 first does not hide an overflow behind it: nothing overflows, but bytes must be none.
  EXPECT_NE(error(file_of(dict_of("(0, 9223372036854775807)"), 4)).find("received 4"),
            std::string::npos);
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_NE(error(file_of(dict_of(many + ")"), 4)).find("64 dimensions"), std::string::npos);
}

TEST_F(Npy, RefusesOtherTypesAndHeaders) {
  for (const char* type : {">f4", "<f2", "<i4", "|O", "<c8", "f4"}) {
    EXPECT_NE(error(file_of(dict_of("(3, 5)", type), 60)).find("dtype"), std::string::npos) << type;
  }
  for (const char* dict :
       {"{'descr': '<f4', 'shape': (3, 5), }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (15,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (15,), 'more': '1'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (15)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (15,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3, 5]}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (3, 5)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (15,)} x",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (15,)}",
        "",
        "{"}) {
    EXPECT_NE(error(file_of(dict, 60)), read) << dict;
  }
  EXPECT_NE(error(file_of(dict_of("(15,)"), 60, 4)).find("version"), std::string::npos);
  EXPECT_NE(error(file_of(dict_of("(15,)"), 60, 0)).find("version"), std::string::npos);
}

TEST_F(Npy, ReadsTheTypesThatAreAskedFor) {
  const auto bytes = file_of(dict_of("(3, 5)", "|u1"), 15);
  EXPECT_EQ(read_npy_header(write(bytes), {"|u1"}).item_bytes, 1);
  EXPECT_EQ(thrown<std::runtime_error>([&] {
              read_npy_header(write(bytes), {"<i4", "<i8"});
            }),
            formatted("[npy] '{}' needs dtype '<i4' or '<i8', received '|u1'",
                      (folder_ / "a.npy").string()));
}

TEST_F(Npy, TellsAMissingFileApart) {
  EXPECT_THROW(read_npy_header(folder_ / "none.npy"), std::invalid_argument);
}

TEST_F(Npy, WritesHeadersByteForByteAsNumpy) {
  const std::string header = npy_header_bytes({32, 2560000});
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (32, 2560000), }";
  ASSERT_EQ(header.size(), 128U);
  EXPECT_EQ(header,
            std::string("\x93NUMPY\x01\0\x76\0", 10) + dict +
                std::string(128 - 10 - dict.size() - 1, ' ') + "\n");
  EXPECT_EQ(read_npy_header(write(npy_header_bytes({0, 7}))).shape,
            (std::vector<std::int64_t>{0, 7}));
  EXPECT_NE(npy_header_bytes({7}).find("(7,), }"), std::string::npos);
  const NpyHeader wide =
      read_npy_header(write(npy_header_bytes({2, 3}, 8) + std::string(48, '\0')));
  EXPECT_EQ(wide.item_bytes, 8);
  EXPECT_EQ(wide.data_offset % 64, 0);
}

}  // namespace
}  // namespace dimred::checkpoints
