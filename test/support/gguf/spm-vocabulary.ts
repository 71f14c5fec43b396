/** The numbers that llama.cpp uses for token types. */
export const tokenKinds = { normal: 1, unknown: 2, control: 3, userDefined: 4, byte: 6 } as const;

export interface VocabularyToken {
  readonly text: string;
  /** The score of the piece. Pieces with higher scores are merged first. */
  readonly score: number;
  readonly kind: number;
  /**
   * The bias that is added to the logit of this token at every position. Without it, random weights would generate as
   * many byte and control tokens as letters.
   */
  readonly bias: number;
}

export interface SpmVocabulary {
  readonly tokens: readonly VocabularyToken[];
  /** The id of each token, by the token's text. */
  readonly ids: ReadonlyMap<string, number>;
}

/** SentencePiece's character for a space. */
const SPACE = "\u2581";

const LETTERS = Array.from("abcdefghijklmnopqrstuvwxyz");
const OTHER_ASCII = Array.from(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\"\n",
);
/** Some characters of each script, so that texts in that script do not consist only of byte tokens. */
const OTHER_SCRIPTS = Array.from("äöüßéèçñøåłščžабвдеиклмнорстуαβγδλπ日本語中文人大한국어—“”…€✓🙂");

/** Common pieces of two letters, as in a trained vocabulary. */
const PAIRS =
  "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve".split(
    " ",
  );

const WORDS = (
  "the of and to in is that it for was on are as with his they be at one have this from or had by " +
  "hot but some what there we can out other were all your when up use word how said an each she " +
  "which do their time if will way about many then them would write like so these her long make " +
  "thing see him two has look more day could go come did my sound no most number who over know " +
  "water than call first people may down side been now find any new work part take get place made " +
  "live where after back little only round man year came show every good me give our under name " +
  "very through just form much great think say help low line before turn cause same mean differ " +
  "move right boy old too does tell sentence set three want air well also play small end put home " +
  "read hand port large spell add even land here must big high such follow act why ask men change " +
  "went light kind off need house picture try us again animal point mother world near build self " +
  "earth father head stand own page should country found answer school grow study still learn plant " +
  "cover food sun four thought let keep eye never last door between city tree cross since hard start " +
  "might story saw far sea draw left late run while press close night real life few stop open seem " +
  "together next white children begin got walk example ease paper often always music those both mark " +
  "book letter until mile river car feet care second group carry took rain eat room friend began idea"
).split(" ");

/** Texts that are always one token, like the tool markers in models of the Qwen family. */
const MARKERS = ["<tool_call>", "</tool_call>"];
const CONTROLS = ["<|im_start|>", "<|im_end|>"];

/** The bias of unwanted tokens: their probability is e^-16 times that of a letter. */
const NEVER = -16;
/** The bias of quotes and brackets, so that strings and lists in guided output end. */
const STRUCTURE_BIAS = 2.5;

/** The number of tokens that every vocabulary needs: control tokens, byte tokens and the characters of ASCII. */
export const VOCABULARY_MIN =
  3 + 256 + CONTROLS.length + MARKERS.length + 1 + LETTERS.length + OTHER_ASCII.length;

/**
 * Builds a SentencePiece vocabulary of exactly `size` tokens. It can encode any text, because byte tokens encode the
 * characters that have no token of their own. `endsAfter` is the average length of an answer in tokens at temperature
 * 1. If `endsAfter` is undefined, answers never end, so that a measurement can choose their length.
 */
export function createSpmVocabulary(size: number, endsAfter: number | undefined): SpmVocabulary {
  if (size < VOCABULARY_MIN) throw new Error(`a vocabulary has at least ${VOCABULARY_MIN} tokens`);
  const tokens: VocabularyToken[] = [];
  const ids = new Map<string, number>();
  const add = (text: string, kind: number, bias: number, score = 0): void => {
    if (ids.has(text) || tokens.length >= size) return;
    ids.set(text, tokens.length);
    tokens.push({ text, score, kind, bias });
  };
  // The two tokens </s> and <|im_end|> end an answer. Together they have a probability of about 1 / `endsAfter`, and
  // the `texts` other tokens have the rest.
  const texts = size - 256;
  const endBias = endsAfter === undefined ? NEVER : Math.log(texts / endsAfter / 2);

  add("<unk>", tokenKinds.unknown, NEVER);
  add("<s>", tokenKinds.control, NEVER);
  add("</s>", tokenKinds.control, endBias);
  for (let byte = 0; byte < 256; byte++) {
    add(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, tokenKinds.byte, NEVER);
  }
  for (const text of CONTROLS)
    add(text, tokenKinds.control, text === "<|im_end|>" ? endBias : NEVER);
  for (const text of MARKERS) add(text, tokenKinds.userDefined, NEVER / 4);

  let score = -1;
  // A later piece has a lower score, so shorter pieces are merged before the longer ones that consist of them.
  const piece = (text: string, bias: number): void => add(text, tokenKinds.normal, bias, score--);
  piece(SPACE, 1);
  for (const letter of LETTERS) piece(letter, -0.5);
  for (const text of OTHER_ASCII) piece(text, '"[]{},:'.includes(text) ? STRUCTURE_BIAS : -1.5);
  for (const pair of PAIRS) piece(pair, 0);
  for (const letter of LETTERS) piece(SPACE + letter, 0);
  for (const text of OTHER_SCRIPTS) piece(text, -3);
  for (const word of WORDS) prefixes(SPACE + word, (part, whole) => piece(part, whole ? 1 : -1));
  for (const word of WORDS) prefixes(word, (part, whole) => piece(part, whole ? 0 : -1));
  for (const text of syllables()) {
    if (tokens.length >= size) break;
    piece(text, 0);
  }
  if (tokens.length < size)
    throw new Error(`the vocabulary has only ${tokens.length} of ${size} pieces`);
  return { tokens, ids };
}

/**
 * Returns all prefixes of a word. A merge joins two pieces, so a word is encoded as one piece only if its prefixes
 * are pieces too.
 */
function prefixes(word: string, visit: (part: string, whole: boolean) => void): void {
  for (let length = 2; length <= word.length; length++) {
    visit(word.slice(0, length), length === word.length);
  }
}

/** Creates pronounceable pieces without meaning, for vocabularies of a realistic size. */
function* syllables(): Generator<string> {
  const consonants = Array.from("bdfgklmnprstvz");
  const vowels = Array.from("aeiou");
  const pairs = consonants.flatMap((consonant) => vowels.map((vowel) => consonant + vowel));
  for (const start of [SPACE, ""]) {
    for (const first of pairs) yield start + first;
    for (const first of pairs) for (const second of pairs) yield start + first + second;
  }
  for (const first of pairs) {
    for (const second of pairs) for (const third of pairs) yield first + second + third;
  }
}
