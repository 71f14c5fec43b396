import { tokenKinds, type VocabularyToken } from "./spm-vocabulary.ts";

/** The prefix of a word's first piece in files for llama.cpp; later pieces have no prefix. */
export const WORD_START = "\u2581";

const CHARACTERS = [
  ...Array.from("abcdefghijklmnopqrstuvwxyz0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
  ...Array.from("абвгдежзийклмнопрстуфхцчшщъыьэюяαβγδεζηθικλμνξοπρστυφχψω日本語中文人大한국어"),
];

const WORDS = (
  "the of and to in is that it for was on are as with they be at one have this from or had by not " +
  "dog cat horse bird fish tree house river mountain city train car boat road bridge music song " +
  "book letter paper story computer program server file memory network message query model word " +
  "red green blue black white small large old new good bad hot cold fast slow run walk read write " +
  "eat drink sleep work play think know say make take give find look come go see hear open close"
).split(" ");

const ENDINGS = "s es ed ing er est ly ness ful less tion ment able".split(" ");

/** The ids of the special pieces: [CLS] begins every text, and [SEP] ends it. */
export const wordPieceIds = { padding: 0, unknown: 1, begin: 2, separator: 3, mask: 4 } as const;

/** Creates a lower-case WordPiece vocabulary, in which all characters that are not in CHARACTERS become [UNK]. */
export function createWordPieceVocabulary(): readonly VocabularyToken[] {
  const texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
  const control = texts.length;
  for (const character of CHARACTERS) texts.push(WORD_START + character, character);
  for (const word of WORDS) if (word.length > 1) texts.push(WORD_START + word);
  for (const ending of ENDINGS) if (ending.length > 1) texts.push(ending);
  return [...new Set(texts)].map((text, id) => ({
    text,
    score: 0,
    bias: 0,
    kind: id < control ? tokenKinds.control : tokenKinds.normal,
  }));
}
