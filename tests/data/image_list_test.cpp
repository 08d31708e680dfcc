#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data/image_files.h"
#include "data/open.h"
#include "support/errors.h"
#include "tests/data/shade_files.h"

namespace dimred::data {
namespace {

TEST(ImageList, ReadsPathsWithBlanksAndLabels) {
  const TemporaryFolder folder;
  put(folder / "images/one two.png", image(1));
  put(folder / "images/3.png", image(3));
  put(folder / "label.txt", "\xEF\xBB\xBFone two.png 1\r\n\n  3.png\t0 \n");
  const auto dataset = open_image_list(folder / "label.txt");
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->class_names(), numbered_classes(2));
  EXPECT_EQ(label_of(*dataset, 0), 1);
  EXPECT_EQ(shade_of(*dataset, 1), 3);
  put(folder / "labels.txt",
      "\xEF\xBB\xBF"
      "0: cow\r\n1: cat\r\n");
  EXPECT_EQ(open_image_list(folder / "label.txt")->class_names(),
            (std::vector<std::string>{"cow", "cat"}));
  put(folder / "label.txt", "one two.png 1\r\r3.png 0\r");  // as older programs of macOS write it
  EXPECT_EQ(open_image_list(folder / "label.txt")->size(), 2);
  put(folder / "words.txt", "3.png dog\none two.png cat\n");
  const auto words = open_image_list(folder / "words.txt");
  EXPECT_EQ(words->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(label_of(*words, 0), 1);
}

TEST(ImageList, NamesTheLineThatIsBad) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content, const std::vector<std::string>& names = {}) {
    put(folder / "label.txt", content);
    return thrown<std::runtime_error>(
        [&] { open_image_list(folder / "label.txt", names, /*numbers=*/true); });
  };
  EXPECT_NE(text("a.png 1\nb.png\n").find("label.txt:2: needs \"path label\", received b.png"),
            std::string::npos);
  EXPECT_NE(text("a.png 1\r\n\r\nb.png\r\n").find("label.txt:3: needs"), std::string::npos);
  EXPECT_NE(text("a.png 1\nb.png 7\n", {"x", "y"})
                .find("label.txt:2: needs one of the 2 classes, received 7"),
            std::string::npos);
  EXPECT_NE(text("im 9.jpg\n").find("label.txt:1: needs \"path label\", received im 9.jpg"),
            std::string::npos);
  EXPECT_NE(text("a.png -1\n").find("label.txt:1: needs a label >= 0, received -1"),
            std::string::npos);
  EXPECT_NE(text("\n\n").find("needs a line for each image"), std::string::npos);
  EXPECT_NE(text("a.png 1000000\n").find("needs labels < 1000000"), std::string::npos);
}

/// As a folder without an image does.
TEST(ImageList, RefusesAClassWithoutAnImage) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content, const std::vector<std::string>& names = {}) {
    put(folder / "label.txt", content);
    return thrown<std::invalid_argument>(
        [&] { open_image_list(folder / "label.txt", names, /*numbers=*/true); });
  };
  const auto from_one = text("a.png 1\nb.png 2\n");
  EXPECT_NE(from_one.find("received none with the label 0 (3 classes, labels 1 to 2)"),
            std::string::npos)
      << from_one;
  put(folder / "labels.txt", "cow\ncat\ndog\n");
  EXPECT_NE(text("a.png 0\nb.png 1\n").find("none with the label 2"), std::string::npos);
  EXPECT_EQ(text("a.png 1\n", {"cow", "cat", "dog"}), "no exception");  // a test set
}

TEST(ImageList, SaysWhatIsNoList) {
  const TemporaryFolder folder;
  const auto text = [&](const std::string& content) {
    put(folder / "label.txt", content);
    return failure_of([&] { open_image_list(folder / "label.txt"); });
  };
  EXPECT_NE(text({'\x78', '\x9c', '\0', 'x'}).find("which is compressed with zlib"),
            std::string::npos);
  EXPECT_NE(text("\xFF\xFE"
                 "a")
                .find("received a text in UTF-16"),
            std::string::npos);
  EXPECT_NE(text(std::string("a\0b 1\n", 6)).find("received 6 bytes of something else"),
            std::string::npos);
}

/// As pandas, numpy.savetxt, spreadsheets and Python's repr write whole numbers. Twelve of them: as
/// words they would be sorted 0, 1, 10, 11, 2, ...
TEST(ImageList, ReadsNumbersInEverySpelling) {
  const std::vector<std::pair<std::string, std::string>> spellings{{"", ".0"},
                                                                   {"+", ""},
                                                                   {"\"", "\""},
                                                                   {"", "e0"},
                                                                   {"0", ".0"},
                                                                   {"", ".000000000000000000e+00"},
                                                                   {"", ","},
                                                                   {"[", ".]"},
                                                                   {"'+0", "'"}};
  for (const auto& [before, after] : spellings) {
    std::string lines;
    for (int i = 0; i < 12; ++i) lines += formatted("i.png {}{}{}\n", before, i, after);
    const auto list = parse_image_list(lines, "train.txt");
    EXPECT_EQ(list.class_names, numbered_classes(12)) << before << 2 << after;
    for (std::int32_t i = 0; i < 12; ++i) EXPECT_EQ(list.labels.at(static_cast<std::size_t>(i)), i);
  }
  const auto hexadecimal = parse_image_list("i.png 0x1\ni.png 0x0\n", "train.txt");
  EXPECT_EQ(hexadecimal.labels, (std::vector<std::int32_t>{1, 0}));
}

TEST(ImageList, RefusesNumbersThatAreNoLabels) {
  const auto text = [](const std::string& label) {
    return thrown<std::runtime_error>([&] { parse_image_list("i.png " + label, "train.txt"); });
  };
  for (const auto* label : {"2.5", "2,0", "1,000", "0.5e0", "[2.5]"})
    EXPECT_NE(
        text(label).find("train.txt:1: needs whole numbers as labels, or names with a letter, "
                         "received "),
        std::string::npos)
        << text(label);
  for (const auto* label : {"1e6", "1e400", "99999999999999999999"})
    EXPECT_NE(text(label).find("needs labels < 1000000"), std::string::npos) << text(label);
  EXPECT_NE(text("-2.0").find("needs a label >= 0, received -2.0"), std::string::npos);
  for (const auto* name : {"inf", "nan", "1.2.3", "n02", "2nd", "\"", "10-20", "e5"})
    EXPECT_EQ(parse_image_list(std::string("i.png ") + name, "train.txt").class_names,
              std::vector<std::string>{name});
}

/// They would be sorted as words are: 0, 1, 10, 11, 2, ...
TEST(ImageList, RefusesDigitsOfOtherScripts) {
  const auto list = [](const std::string& label, const std::vector<std::string>& names = {}) {
    return parse_image_list("i.png " + label, "train.txt", {}, names);
  };
  for (const auto* label : {"\uFF12", "1\uFF10", "\u0662", "-\u0967", "\uFF11.0"})
    EXPECT_NE(thrown<std::runtime_error>([&] {
                list(label);
              }).find("train.txt:1: needs numbers in the digits 0 to 9, or names with a letter"),
              std::string::npos)
        << label;
  for (const auto* name : {"n\uFF12", "\u4E8C", "\u00E9"})
    EXPECT_EQ(list(name).class_names, std::vector<std::string>{name});
  EXPECT_EQ(list("\uFF12", {"\uFF11", "\uFF12"}).labels, std::vector<std::int32_t>{1});
}

TEST(ImageList, RefusesTwoFilesOfNamesThatDiffer) {
  const TemporaryFolder folder;
  put(folder / "train.txt", "a.png 0\nb.png 1\n");
  put(folder / "labels.txt", "cow\ncat\n");
  const auto with = [&](const std::string& classes) {
    put(folder / "classes.txt", classes);
    return thrown<std::invalid_argument>([&] { open_image_list(folder / "train.txt"); });
  };
  EXPECT_EQ(with("0: cow\n1: cat\n"), "no exception");
  const auto text = with("cat\ncow\n");
  EXPECT_NE(text.find("labels.txt and "), std::string::npos) << text;
  EXPECT_NE(
      text.find(
          "classes.txt name different classes: label 0 is cow in the first, cat in the second"),
      std::string::npos)
      << text;
  EXPECT_NE(with("cow\n").find("label 1 is cat in the first, no more in the second"),
            std::string::npos);
  EXPECT_NE(with("cow\ncat\ndog\n").find("label 2 is no more in the first, dog in the second"),
            std::string::npos);
}

/// A training set of folders may have such names.
TEST(ImageList, TakesANameThatLooksLikeANumberWhereItIsAClass) {
  const std::vector<std::string> versions{"10.0", "2.0"};
  const auto list = parse_image_list("i.png 2.0\ni.png 10.0\n", "test.txt", {}, versions);
  EXPECT_EQ(list.labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_NE(thrown<std::runtime_error>([&] {
              parse_image_list("i.png 3.0\n", "test.txt", {}, versions);
            }).find("needs a name as the training set's labels are"),
            std::string::npos);
}

/// Twelve classes: as words they would be sorted 0, 1, 10, 11, 2, ...
TEST(ImageList, NeedsLabelsOfOneKind) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "i.png " + std::to_string(i) + '\n';
  const auto text = [&](const std::string& more) {
    put(folder / "train.txt", lines + more);
    return thrown<std::runtime_error>([&] { open_image_list(folder / "train.txt"); });
  };
  EXPECT_NE(text("i.png 5x\n").find("train.txt:13: needs a number as line 1 has (0), received 5x"),
            std::string::npos);
  lines = "i.png cat\n";
  EXPECT_NE(text("i.png 7\n").find("train.txt:2: needs a name as line 1 has (cat), received 7"),
            std::string::npos);
}

TEST(ImageList, TestListsNeedTheTrainingListsKind) {
  const TemporaryFolder folder;
  put(folder / "a.png", image(1));
  put(folder / "train.txt", "a.png cat\nb.png dog\n");
  put(folder / "test.txt", "a.png 1\n");
  DatasetOptions options{.path = folder.path()};
  const auto names = open_dataset(options, true)->class_names();
  const auto number = thrown<std::runtime_error>([&] { open_dataset(options, false, names); });
  EXPECT_NE(number.find("test.txt:1: needs a name as the training set's labels are (cat is label 0)"
                        ", received 1"),
            std::string::npos)
      << number;
  put(folder / "test.txt", "a.png dog\n");
  EXPECT_EQ(label_of(*open_dataset(options, false, names), 0), 1);
  put(folder / "train.txt", "a.png 0\nb.png 1\n");
  put(folder / "labels.txt", "cat\ndog\n");
  const auto word = thrown<std::runtime_error>([&] { open_dataset(options, false, names); });
  EXPECT_NE(word.find("needs a number as the training set's labels are"), std::string::npos)
      << word;
  put(folder / "test.txt", "a.png 1\n");
  EXPECT_EQ(label_of(*open_dataset(options, false, names), 0), 1);
}

TEST(ImageList, TestSetsOwnNamesMustBeTheTrainingSets) {
  const TemporaryFolder folder;
  put(folder / "train/label.txt", "a.png 0\nb.png 1\n");
  put(folder / "train/labels.txt", "0: cat\n1: dog\n");
  put(folder / "test/label.txt", "a.png 0\n");
  const DatasetOptions options{.path = folder.path()};
  const auto names = open_dataset(options, true)->class_names();
  EXPECT_EQ(open_dataset(options, false, names)->class_names(), names);
  put(folder / "test/labels.txt", "cat\ndog\n");
  EXPECT_EQ(open_dataset(options, false, names)->class_names(), names);
  put(folder / "test/labels.txt", "dog\ncat\n");
  const auto text = thrown<std::invalid_argument>([&] { open_dataset(options, false, names); });
  EXPECT_NE(text.find("label 0 is cat there, dog here"), std::string::npos) << text;
}

TEST(ImageList, NamesFilesMustBeSound) {
  const TemporaryFolder folder;
  put(folder / "label.txt", "a.png 0\n");
  const auto text = [&](const std::string& content) {
    put(folder / "classes.txt", content);
    return thrown<std::runtime_error>([&] { open_image_list(folder / "label.txt"); });
  };
  EXPECT_NE(text("cat\ncat\n").find("classes.txt:2: needs a different name"), std::string::npos);
  EXPECT_NE(text("1: cat\n").find("classes.txt:1: needs 0:name, received 1: cat"),
            std::string::npos);
  EXPECT_NE(text("c\xFF\n").find("needs class names in UTF-8"), std::string::npos);
}

TEST(ImageList, FindsTheFolderByAnyFileThatIsThere) {
  const TemporaryFolder folder;
  put(folder / "images/2.png", image(2));
  put(folder / "label.txt", "1.png 0\n2.png 1\n");
  const auto dataset = open_image_list(folder / "label.txt");
  EXPECT_EQ(shade_of(*dataset, 1), 2);
  EXPECT_NE(
      thrown<std::runtime_error>([&] { shade_of(*dataset, 0); }).find("images/1.png: No such"),
      std::string::npos);
  put(folder / "2.png", image(3));
  EXPECT_EQ(shade_of(*open_image_list(folder / "label.txt"), 1), 3);
}

}  // namespace
}  // namespace dimred::data
