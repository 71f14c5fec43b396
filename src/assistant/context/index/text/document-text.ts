/** The text of a file without its markup. */
export interface DocumentText {
  /** The title that the text contains, or else the name of the file. */
  readonly title: string;
  readonly sections: readonly Section[];
}

export interface Section {
  /** The headings above the text, such as `Setup > Network`; empty if there are none. */
  readonly heading: string;
  readonly text: string;
}

/** Separates a heading from its subheading. */
export const HEADING_SEPARATOR = " > ";
