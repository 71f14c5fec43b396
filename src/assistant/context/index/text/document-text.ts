/** What a file comes to once its markup is gone: the same for every kind of file. */
export interface DocumentText {
  /** For people; the file's name where the text has none of its own. */
  readonly title: string;
  readonly sections: readonly Section[];
}

export interface Section {
  /** The heading above the text, with those above it: `Setup > Network`. Empty: there is none. */
  readonly heading: string;
  readonly text: string;
}

/** Headings that stand in each other, as one text. */
export const HEADING_SEPARATOR = " > ";
