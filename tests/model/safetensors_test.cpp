// SPDX-License-Identifier: MIT
// Checkpoint files: what is written is read, equal bytes for equal tensors, and every kind of
// broken file is refused by name.
#include "model/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/half.h"
#include "model/io/match.h"
#include "model/io/tensor_file.h"
#include "model/temporary.h"

namespace fla::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

/// A file's bytes from its header and data.
std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string message_of(const std::string& bytes) {
  const auto file = parse_tensor_file("f", std::as_bytes(std::span(bytes)));
  if (file.ok())
    return "";
  return std::string(file.status().message());
}

std::string message_of(const std::string& header, const std::string& data) {
  return message_of(file_of(header, data));
}

/// One tensor "a" of two fp32 values, with a part of its entry replaced.
std::string message_with(const std::string& part, const std::string& replacement) {
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const size_t at = header.find(part);
  EXPECT_NE(at, std::string::npos);
  header.replace(at, part.size(), replacement);
  return message_of(header, "01234567");
}

TEST(TensorFile, AcceptsAndPads) {
  EXPECT_EQ(message_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   )", "01234567"),
            "");
  EXPECT_EQ(message_of("{}", ""), "");
  EXPECT_EQ(message_of(R"({"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                       R"("none":{"dtype":"U8","shape":[3,0],"data_offsets":[8,8]}})",
                       "01234567"),
            "");
}

TEST(TensorFile, RefusesBadLengths) {
  EXPECT_THAT(message_of("1234567"), HasSubstr("f: 7 bytes are too short"));
  EXPECT_THAT(message_of(""), HasSubstr("0 bytes are too short"));
  std::string truncated = file_of("{}", "");
  truncated.pop_back();
  EXPECT_THAT(message_of(truncated), HasSubstr("a header of 2 bytes in a file of 9: truncated"));
  EXPECT_THAT(message_of(std::string(8, '\xff')), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(message_of(" {}", ""), HasSubstr("does not start with '{'"));
  EXPECT_THAT(message_of("", ""), HasSubstr("does not start with '{'"));
}

TEST(TensorFile, RefusesBadHeaders) {
  EXPECT_THAT(message_of("{\"a\":", ""), HasSubstr("f: the header is not JSON"));
  EXPECT_THAT(message_of("{\"\xff\":1}", ""), HasSubstr("not JSON"));
  EXPECT_THAT(message_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                         "1"),
              HasSubstr("f: header: 'a' stands there twice"));
  EXPECT_THAT(message_with("\"shape\":[2]", R"("shape":[1],"shape":[2])"),
              HasSubstr("'shape' stands there twice"));
  EXPECT_THAT(message_with("[2]", "[[[[2]]]]"), HasSubstr("nested too deep"));
  EXPECT_THAT(message_of("{\"a\":[1]}", ""), HasSubstr("tensor 'a': expected an object"));
  EXPECT_THAT(message_of(R"({"__metadata__":{"step":1}})", ""), HasSubstr("object of texts"));
  EXPECT_THAT(message_of(R"({"__metadata__":"pt"})", ""), HasSubstr("object of texts"));
}

TEST(TensorFile, RefusesBadEntries) {
  EXPECT_THAT(message_with("F32", "F8_E4M3"),
              HasSubstr("f: tensor 'a': dtype \"F8_E4M3\", known are I64, F64, F32, I32, BF16, "
                        "F16, U8"));
  EXPECT_THAT(message_with("\"F32\"", "7"), HasSubstr("dtype 7"));
  EXPECT_THAT(message_with("\"shape\":[2],", ""), HasSubstr("dtype, shape and data_offsets"));
  for (const char* shape : {"[-2]", "[2.0]", "2", "[\"2\"]", "[9223372036854775808]"})
    EXPECT_THAT(message_with("[2]", shape), HasSubstr("shape is not a list of sizes")) << shape;
  EXPECT_THAT(message_with("[2]", "[4611686018427387904,4]"), HasSubstr("no size in 63 bits"));
  EXPECT_THAT(message_with("[2]", "[3]"), HasSubstr("8 bytes of data, expected 12 for fp32 [3]"));
  for (const char* offsets : {"[8,0]", "[0]", "[0,8,8]", "[-1,8]", "[0,8.0]", "null"})
    EXPECT_THAT(message_with("[0,8]", offsets), HasSubstr("data_offsets is not a")) << offsets;
  EXPECT_THAT(message_with("[0,8]", "[0,9]"), HasSubstr("end at 9, the file has 8 bytes"));
}

TEST(TensorFile, RefusesOverlapsAndHoles) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(message_of(two("[4,8]", "[0,4]"), "01234567"), "");
  EXPECT_THAT(message_of(two("[0,4]", "[2,6]"), "012345"),
              HasSubstr("f: the data of tensor 'b' begins at 2, expected 4: it overlaps another"));
  EXPECT_THAT(message_of(two("[0,4]", "[0,4]"), "0123"), HasSubstr("it overlaps another"));
  EXPECT_THAT(message_of(two("[0,4]", "[5,9]"), "012345678"),
              HasSubstr("tensor 'b' begins at 5, expected 4: a hole before it"));
  EXPECT_THAT(message_of(two("[1,5]", "[5,9]"), "012345678"), HasSubstr("'a' begins at 1"));
  EXPECT_THAT(message_of(two("[0,4]", "[4,8]"), "0123456789"),
              HasSubstr("2 bytes of data follow the last tensor"));
}

/// Tensors whose names and values are told apart.
class CheckpointTest : public testing::Test {
 protected:
  void add(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    TensorEntry entry{name, dtype, std::move(shape), nullptr};
    const auto bytes = static_cast<size_t>(tensor_bytes(entry).value());
    auto& data = storage_.emplace_back(bytes);
    for (size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>(17 * storage_.size() + i);
    entry.data = data.data();
    entries_.push_back(entry);
  }
  void SetUp() override {
    add("z", DType::kBf16, {3});
    add("b", DType::kFp32, {2, 2});
    add("a", DType::kFp16, {1, 1, 5});
    add("step", DType::kInt64, {});
    add("c", DType::kBf16, {7});
    add("d", DType::kFp64, {2});
    add("e", DType::kUint8, {3});
    add("f", DType::kInt32, {2});
    add("empty", DType::kFp32, {0, 4});
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(file.path().filename());
    return names;
  }
  Checkpoint open(const std::string& at) const {
    Result<Checkpoint> checkpoint = Checkpoint::open(at);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    return std::move(checkpoint.value());
  }
  void write(int64_t shard_bytes, const Metadata& metadata = {{"format", "pt"}}) const {
    const Status status = write_checkpoint(folder_.path(), entries_, shard_bytes, metadata);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::string open_error() const {
    const Result<Checkpoint> checkpoint = Checkpoint::open(folder_.path());
    return checkpoint.ok() ? "" : std::string(checkpoint.status().message());
  }
  void expect_equal(const Checkpoint& checkpoint) const {
    ASSERT_EQ(checkpoint.entries().size(), entries_.size());
    for (const TensorEntry& entry : entries_) {
      const TensorEntry* const found = checkpoint.find(entry.name);
      ASSERT_NE(found, nullptr) << entry.name;
      EXPECT_EQ(found->dtype, entry.dtype);
      EXPECT_EQ(found->shape, entry.shape);
      EXPECT_TRUE(std::equal(entry.data, entry.data + tensor_bytes(entry).value(), found->data))
          << entry.name;
    }
    EXPECT_EQ(checkpoint.find("nothing"), nullptr);
  }

  TemporaryFolder folder_;
  std::vector<TensorEntry> entries_;
  std::vector<std::vector<std::byte>> storage_;
};

TEST_F(CheckpointTest, WritesExactBytes) {
  const std::array<float, 2> values = {1.0F, -2.0F};
  const std::array<uint8_t, 3> bytes = {1, 2, 3};
  const std::vector<TensorEntry> two = {
      {"b", DType::kUint8, {3}, reinterpret_cast<const std::byte*>(bytes.data())},
      {"w", DType::kFp32, {2}, reinterpret_cast<const std::byte*>(values.data())}};
  ASSERT_TRUE(write_tensor_file(path("x"), two, {{"format", "pt"}}).ok());
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string data(8, '\0');
  std::memcpy(data.data(), values.data(), 8);
  EXPECT_EQ(read("x"), file_of(header, data + "\x01\x02\x03"));
}

TEST_F(CheckpointTest, OneFileRoundTrip) {
  write(0);
  EXPECT_THAT(files(), ElementsAre("model.safetensors"));
  const std::string first = read("model.safetensors");
  EXPECT_EQ(first.size() % 8, (16 + 16 + 8 + 8 + 14 + 6 + 10 + 3) % 8U) << "padded header";
  {
    const Checkpoint checkpoint = open(folder_.path());
    expect_equal(checkpoint);
    EXPECT_THAT(checkpoint.metadata(), ElementsAre(testing::Pair("format", "pt")));
    std::vector<std::string> order;
    for (const TensorEntry& entry : checkpoint.entries())
      order.push_back(entry.name);
    EXPECT_THAT(order, ElementsAre("step", "d", "b", "empty", "f", "c", "z", "a", "e"));
    std::vector<TensorEntry> shuffled(checkpoint.entries().rbegin(), checkpoint.entries().rend());
    ASSERT_TRUE(write_checkpoint(path("again"), shuffled, 0, checkpoint.metadata()).ok());
  }
  EXPECT_EQ(read("again/model.safetensors"), first);
  expect_equal(open(path("again/model.safetensors")));
}

TEST_F(CheckpointTest, ShardsRoundTrip) {
  write(24);
  EXPECT_THAT(files(), UnorderedElementsAre(
                           "model.safetensors.index.json", "model-00001-of-00004.safetensors",
                           "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
                           "model-00004-of-00004.safetensors"));
  EXPECT_THAT(read("model.safetensors.index.json"),
              AllOf(HasSubstr("{\n  \"metadata\": {\n    \"total_size\": 81\n  },"),
                    HasSubstr("    \"step\": \"model-00001-of-00004.safetensors\",")));
  const Checkpoint checkpoint = open(folder_.path());
  expect_equal(checkpoint);
  ASSERT_TRUE(
      write_checkpoint(path("again"), checkpoint.entries(), 24, checkpoint.metadata()).ok());
  for (const std::string& name : files()) {
    if (name != "again") {
      EXPECT_EQ(read("again/" + name), read(name)) << name;
    }
  }
}

TEST_F(CheckpointTest, LargeTensorStandsAlone) {
  write(1);
  size_t shards = 0;
  for (const std::string& name : files())
    shards += name.starts_with("model-") ? 1 : 0;
  EXPECT_EQ(shards, entries_.size());
  expect_equal(open(folder_.path()));
}

TEST_F(CheckpointTest, SavingAgainLeavesOneCheckpoint) {
  write(24);
  folder_.write("model-of-mine.safetensors", "not ours");
  write(0);
  EXPECT_THAT(files(), UnorderedElementsAre("model.safetensors", "model-of-mine.safetensors"));
  write(40);
  EXPECT_THAT(files(), Not(testing::Contains("model.safetensors")));
  expect_equal(open(folder_.path()));
}

TEST_F(CheckpointTest, FailedSaveLeavesTheFormerOne) {
  write(0);
  const std::string before = read("model.safetensors");
  entries_.push_back(entries_.front());
  Status status = write_checkpoint(folder_.path(), entries_, 24, {});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("tensor 'z' is given twice"));
  entries_.back() = {"\xff", DType::kUint8, {3}, entries_.front().data};  // fails at the last shard
  status = write_checkpoint(folder_.path(), entries_, 24, {});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  entries_.back() = {"x", DType::kUint8, {3}, nullptr};
  EXPECT_THAT(write_checkpoint(folder_.path(), entries_, 24, {}).message(),
              HasSubstr("tensor 'x': no data"));
  entries_.back() = {"__metadata__", DType::kUint8, {3}, entries_.front().data};
  EXPECT_THAT(write_checkpoint(folder_.path(), entries_, 0, {}).message(),
              HasSubstr("__metadata__"));
  EXPECT_THAT(files(), ElementsAre("model.safetensors")) << "no temporary file is left";
  EXPECT_EQ(read("model.safetensors"), before);
}

TEST_F(CheckpointTest, NamesWhatIsMissing) {
  EXPECT_THAT(open_error(), HasSubstr("has neither model.safetensors nor"));
  EXPECT_THAT(Checkpoint::open(path("none")).status().message(), HasSubstr("cannot read"));
  write(24);
  const std::string index = read("model.safetensors.index.json");
  std::filesystem::remove(path("model-00002-of-00004.safetensors"));
  EXPECT_THAT(open_error(), HasSubstr("model-00002-of-00004.safetensors': No such file"));
  write(24);
  folder_.write("model.safetensors", "");
  EXPECT_THAT(open_error(), HasSubstr("has both"));
  std::filesystem::remove(path("model.safetensors"));
  const auto with_index = [&](const std::string& text) {
    folder_.write("model.safetensors.index.json", text);
    return open_error();
  };
  EXPECT_THAT(with_index("{"), HasSubstr("index.json: not a JSON object with a weight_map"));
  EXPECT_THAT(with_index(R"({"weight_map":{"a":3}})"), HasSubstr("'a' is no file name"));
  for (const char* name : {"../model.safetensors", "/etc/passwd", "..", "", "sub/x"})
    EXPECT_THAT(with_index(std::string(R"({"weight_map":{"a":")") + name + "\"}}"),
                AnyOf(HasSubstr("expected a file of this folder"), HasSubstr("cannot read")))
        << name;
  EXPECT_THAT(with_index(R"({"weight_map":{"step":"model-00001-of-00004.safetensors"}})"),
              HasSubstr("is not listed as such"));
  std::string with_ghost = index;
  with_ghost.insert(with_ghost.find("    \"a\""),
                    "    \"ghost\": \"model-00001-of-00004.safetensors\",\n");
  EXPECT_THAT(with_index(with_ghost), HasSubstr("tensor 'ghost' is not in model-00001"));
}

TEST_F(CheckpointTest, MatchListsEveryDifference) {
  write(0);
  const Checkpoint checkpoint = open(folder_.path());
  std::vector<ExpectedTensor> expected;
  for (const TensorEntry& entry : entries_)
    expected.push_back({entry.name, entry.shape});
  EXPECT_TRUE(match_tensors(expected, checkpoint).ok());
  expected.erase(expected.begin());                                   // z: extra
  expected[0].shape = {4};                                            // b: misshapen
  expected.push_back({"model.layers.0.attn.q_proj.weight", {8, 2}});  // missing
  expected.push_back({"model.norm.weight", {8}});
  const Status status = match_tensors(expected, checkpoint);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "checkpoint '" + folder_.path() +
                                  "' does not fit the model, 4 tensors:\n"
                                  "  misshapen: b is [2, 2], expected [4]\n"
                                  "  missing: model.layers.0.attn.q_proj.weight, expected [8, 2]\n"
                                  "  missing: model.norm.weight, expected [8]\n"
                                  "  extra: z [3]");
}

template <class In>
TensorEntry entry_of(DType dtype, const std::vector<In>& values) {
  return {"x",
          dtype,
          {static_cast<int64_t>(values.size())},
          reinterpret_cast<const std::byte*>(values.data())};
}

TEST(ConvertTensor, RoundsOnceToNearestEven) {
  // Halfway between two bf16 values, and a hair above: rounding by way of fp32 would lose the hair.
  const double half = 1.0 + 0x1p-8;
  const std::vector<double> values = {1.0,
                                      half,
                                      half + 0x1p-50,
                                      -half,
                                      1.0 + 0x3p-8,
                                      1e300,
                                      -1e-300,
                                      0x1.fffffffffffffp127,
                                      std::numeric_limits<double>::infinity()};
  std::vector<uint16_t> bits(values.size());
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp64, values), DType::kBf16, bits.data()).ok());
  EXPECT_THAT(bits,
              ElementsAre(0x3f80, 0x3f80, 0x3f81, 0xbf80, 0x3f82, 0x7f80, 0x8000, 0x7f80, 0x7f80));
  const std::vector<double> quiet = {std::nan("")};
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp64, quiet), DType::kBf16, bits.data()).ok());
  EXPECT_TRUE(std::isnan(bf16_to_float(bits[0])));
  std::vector<float> single(values.size());
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp64, values), DType::kFp32, single.data()).ok());
  EXPECT_EQ(single[1], 1.0F + 0x1p-8F);
  EXPECT_TRUE(std::isinf(single[5]));
}

TEST(ConvertTensor, EveryPair) {
  const std::vector<uint16_t> half = {0x3c00, 0xc100, 0x0001};   // 1, -2.5, 2^-24
  const std::vector<uint16_t> brain = {0x3f80, 0xc020, 0x7fc1};  // 1, -2.5, NaN
  const std::vector<float> single = {1.0F, -2.5F, 0x1.01p-3F};
  std::vector<float> floats(3);
  std::vector<double> doubles(3);
  std::vector<uint16_t> bits(3);
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp16, half), DType::kFp32, floats.data()).ok());
  EXPECT_THAT(floats, ElementsAre(1.0F, -2.5F, 0x1p-24F));
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp16, half), DType::kBf16, bits.data()).ok());
  EXPECT_THAT(bits, ElementsAre(0x3f80, 0xc020, 0x3380));
  ASSERT_TRUE(convert_tensor(entry_of(DType::kBf16, brain), DType::kBf16, bits.data()).ok());
  EXPECT_EQ(bits, brain) << "NaNs keep their bits";
  ASSERT_TRUE(convert_tensor(entry_of(DType::kBf16, brain), DType::kFp64, doubles.data()).ok());
  EXPECT_EQ(doubles[1], -2.5);
  ASSERT_TRUE(convert_tensor(entry_of(DType::kFp32, single), DType::kBf16, bits.data()).ok());
  EXPECT_THAT(bits, ElementsAre(0x3f80, 0xc020, 0x3e00));
  const Status status =
      convert_tensor(entry_of(DType::kInt32, single), DType::kFp32, floats.data());
  EXPECT_THAT(status.message(), HasSubstr("tensor 'x' is int32, which has no values as fp32"));
  EXPECT_FALSE(convert_tensor(entry_of(DType::kFp32, single), DType::kFp16, bits.data()).ok());
}

TEST(ConvertTensor, UnalignedData) {
  std::vector<std::byte> bytes(1 + 2 * sizeof(double));
  const std::array<double, 2> values = {0.5, -3.0};
  std::memcpy(bytes.data() + 1, values.data(), sizeof(values));
  std::vector<float> floats(2);
  const TensorEntry entry{"x", DType::kFp64, {2}, bytes.data() + 1};
  ASSERT_TRUE(convert_tensor(entry, DType::kFp32, floats.data()).ok());
  EXPECT_THAT(floats, ElementsAre(0.5F, -3.0F));
}

}  // namespace
}  // namespace fla::model
