// SPDX-License-Identifier: MIT
// Families: the parameter counts of the default configs, names and shapes, and configs that must be
// refused.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "model/family.h"

namespace fla::model {
namespace {

Graph graph_of(std::string_view family) {
  const Config config = Config::of(family).value();
  return build_graph(config, {.batch = 1, .length = 16});
}

struct Count {
  std::string_view family;
  int64_t parameters;
};

class DefaultConfig : public testing::TestWithParam<Count> {};

TEST_P(DefaultConfig, HasTheParametersOfTheUpstreamModel) {
  EXPECT_EQ(graph_of(GetParam().family).num_parameters(), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Families, DefaultConfig,
                         testing::Values(Count{"kda", 1390941568},
                                         Count{"gated_deltanet", 1387348732},
                                         Count{"gla", 1365514240}, Count{"retnet", 1351727104},
                                         Count{"delta_net", 1365677056},
                                         Count{"mamba2", 1371839488}, Count{"rwkv7", 1366644736},
                                         Count{"hgrn2", 1364396032},
                                         Count{"transformer", 1364297728}),
                         [](const auto& info) { return std::string(info.param.family); });

TEST(Families, KdaParametersHaveUpstreamsNamesAndShapes) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterInfo& parameter : graph_of("kda").parameters)
    shapes[parameter.name] = parameter.shape;
  const std::map<std::string, std::vector<int64_t>> expected = {
      {"model.embeddings.weight", {32000, 2048}},
      {"model.layers.0.attn_norm.weight", {2048}},
      {"model.layers.0.attn.q_proj.weight", {2048, 2048}},
      {"model.layers.0.attn.q_conv1d.weight", {2048, 1, 4}},
      {"model.layers.0.attn.f_proj.0.weight", {128, 2048}},
      {"model.layers.0.attn.f_proj.1.weight", {2048, 128}},
      {"model.layers.0.attn.b_proj.weight", {16, 2048}},
      {"model.layers.0.attn.A_log", {16}},
      {"model.layers.0.attn.dt_bias", {2048}},
      {"model.layers.0.attn.g_proj.1.bias", {2048}},
      {"model.layers.0.attn.o_norm.weight", {128}},
      {"model.layers.0.attn.o_proj.weight", {2048, 2048}},
      {"model.layers.0.mlp.gate_proj.weight", {5632, 2048}},
      {"model.layers.23.mlp.down_proj.weight", {2048, 5632}},
      {"model.norm.weight", {2048}},
      {"lm_head.weight", {32000, 2048}},
  };
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(shapes.contains(name)) << name;
    EXPECT_EQ(shapes[name], shape) << name;
  }
}

TEST(Families, TiedEmbeddingsHaveNoHead) {
  Config config = Config::of("kda").value();
  config.set("tie_word_embeddings", Value(true));
  for (const ParameterInfo& parameter : build_graph(config, {.batch = 1, .length = 16}).parameters)
    EXPECT_NE(parameter.name, "lm_head.weight");
}

TEST(Families, Rwkv7StartsWithZerosWhereItsAuthorHasThem) {
  int found = 0;
  for (const ParameterInfo& parameter : graph_of("rwkv7").parameters) {
    if (parameter.name.ends_with(".lora.0.weight") ||
        parameter.name.ends_with(".ffn.value.weight")) {
      ++found;
      EXPECT_EQ(parameter.init, Init::kConstant) << parameter.name;
      EXPECT_EQ(parameter.scale, 0.0F) << parameter.name;
    }
  }
  EXPECT_EQ(found, 24 * 5 - 1);  // w, a, g and, but for the first layer, v; one value each
}

std::string refusal(const std::string& json) {
  const Result<Config> config = Config::parse(json, "config.json");
  return config.ok() ? "accepted" : std::string(config.status().message());
}

TEST(Config, UnknownFamilyGetsTheNearest) {
  EXPECT_NE(refusal(R"({"model_type": "kdb"})").find("kda"), std::string::npos);
}

TEST(Config, EveryUnknownKeyAndWrongTypeIsListed) {
  const std::string text = refusal(
      R"({"model_type": "kda", "num_headz": 3, "hidden_size": "big", "torch_dtype": "bfloat16"})");
  EXPECT_NE(text.find("num_headz"), std::string::npos) << text;
  EXPECT_NE(text.find("num_heads"), std::string::npos) << text;
  EXPECT_NE(text.find("hidden_size is \"big\", expected an integer"), std::string::npos) << text;
  EXPECT_EQ(text.find("torch_dtype"), std::string::npos) << text;
}

TEST(Config, HybridLayersAreChecked) {
  EXPECT_NE(refusal(R"({"model_type": "kda", "attn": {"layers": [24], "num_heads": 16}})")
                .find("layer 24"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "kda", "attn": {"layers": [1, 1], "num_heads": 16}})")
                .find("twice"),
            std::string::npos);
  EXPECT_EQ(refusal(R"({"model_type": "kda", "attn": {"layers": [1, 3], "num_heads": 16}})"),
            "accepted");
}

TEST(Config, WritesWhatItReads) {
  const Config config =
      Config::parse(R"({"model_type": "gla", "hidden_size": 512, "torch_dtype": "bfloat16"})", "x")
          .value();
  const std::string text = config.to_json();
  EXPECT_NE(text.find(R"("hidden_size": 512)"), std::string::npos);
  EXPECT_NE(text.find(R"("torch_dtype": "bfloat16")"), std::string::npos);
  EXPECT_EQ(Config::parse(text, "x").value().to_json(), text);
}

TEST(Config, SizesThatDoNotDivideAreRefused) {
  EXPECT_NE(refusal(R"({"model_type": "gla", "num_heads": 3})").find("num_heads is 3"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "kda", "num_v_heads": 24})").find("num_heads is 16"),
            std::string::npos);
}

}  // namespace
}  // namespace fla::model
