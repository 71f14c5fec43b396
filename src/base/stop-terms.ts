import { tokenize } from "./tokenize.ts";

/** Common English words, as terms of `tokenize`, that say nothing about the subject of a question or a request. */
export const stopTerms: ReadonlySet<string> = new Set(
  tokenize(
    `a an and any are as at be but by can could did do does for from had has have he her his how i if in into is it its
    just let like me my need of on or our out please s she so some t that the their them then there these they this to
    us want was we were what when which who whose will with would you your`,
  ),
);
