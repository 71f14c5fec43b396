import { lsaDefaults, trainLsa } from "../../src/assistant/context/index/lsa/lsa-model.ts";
import { CHUNK_CHARACTERS, splitIntoChunks } from "../../src/assistant/context/index/text/chunk.ts";
import { measureDiscovery } from "../../test/support/measure-discovery.ts";
import type { Figure } from "../report.ts";
import { readManual } from "./manual.ts";

/**
 * Discover on the labelled set of tools and wishes: by words alone, and with the vectors that an index of the
 * machine's manual teaches.
 */
export async function measureTools(): Promise<Figure> {
  const texts = readManual().flatMap(({ document }) =>
    splitIntoChunks(document, CHUNK_CHARACTERS).map(({ title, text }) => `${title}\n${text}`),
  );
  const training = trainLsa(() => texts, lsaDefaults);
  let step = training.next();
  while (step.done !== true) step = training.next();
  const model = step.value;
  const embed = async (wanted: readonly string[]) =>
    wanted.map((text) => model.embed(text) ?? new Float32Array(model.dimensions));
  const words = await measureDiscovery();
  const both = await measureDiscovery({ id: "manual", dimensions: model.dimensions, embed });
  const told = ({ all, heldOut }: typeof words) =>
    `nDCG@10 ${all.ndcgAt10.toFixed(3)} (held out ${heldOut.ndcgAt10.toFixed(3)}), recall@1 ${all.recallAt1.toFixed(3)}, recall@5 ${all.recallAt5.toFixed(3)}`;
  return {
    name: "tools: nDCG@10 of Discover with the context's vectors",
    value: both.all.ndcgAt10.toFixed(3),
    floor: `${words.all.ndcgAt10.toFixed(3)} (lexical)`,
    ratio: `${(both.all.ndcgAt10 / words.all.ndcgAt10).toFixed(3)}x`,
    aim: ">= lexical, in both halves",
    isMet:
      both.all.ndcgAt10 >= words.all.ndcgAt10 && both.heldOut.ndcgAt10 >= words.heldOut.ndcgAt10,
    notes: [`lexical ${told(words)}`, `hybrid ${told(both)}`],
  };
}
