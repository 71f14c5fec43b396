import { stemmer } from "stemmer";

/** A wish is a sentence; what is longer is cut. */
export const QUERY_CHARS_MAX = 1000;

/** Scripts that put no blanks between words. */
const unspacedScripts =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;
const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });

/** Words that ask, and say nothing of what is asked for. */
const stopWords = new Set(
  [
    "a an and any are as at be but by can could did do does for from had has have he her his how i if in",
    "into is it its just let like me my need of on or our out please s she so some t that the their them then",
    "there these they this to us want was we were what when which who whose will with would you your",
  ]
    .join(" ")
    .split(" "),
);

/**
 * The words of a text in the form in which they are compared: identifiers taken apart (`createEvent`,
 * `task_add`, `files.copy`), without case and accents, by their stems as Porter has them.
 */
export function tokenize(text: string): string[] {
  return splitWords(text).map(stem);
}

/** The same for a wish; its silent words are left out, unless it has no others. */
export function tokenizeQuery(query: string): string[] {
  const words = splitWords(query.slice(0, QUERY_CHARS_MAX));
  const telling = words.filter((word) => !stopWords.has(word));
  return [...new Set((telling.length > 0 ? telling : words).map(stem))];
}

function stem(word: string): string {
  return /^[a-z]+$/.test(word) ? stemmer(word) : word;
}

function splitWords(text: string): string[] {
  const apart = text
    .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2");
  const plain = apart.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();
  return (plain.match(/[\p{L}\p{N}]+/gu) ?? []).flatMap((word) =>
    unspacedScripts.test(word) ? segmentWords(word) : [word],
  );
}

function segmentWords(word: string): string[] {
  return [...segmenter.segment(word)].flatMap(({ segment, isWordLike }) =>
    isWordLike === true ? [segment] : [],
  );
}
