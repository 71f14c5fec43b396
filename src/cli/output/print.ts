import type { Cli } from "../cli.ts";
import { isDocumentFormat, type OutputFormat } from "../command-options.ts";
import { type Column, formatTable } from "./table.ts";

export interface ListingInput<T> {
  readonly rows: readonly T[];
  readonly columns: readonly Column<T>[];
  /** Additional columns of -o wide, after the others. */
  readonly wideColumns?: readonly Column<T>[];
  /** The reference for -o name, such as `app/hello`. */
  readonly name: (row: T) => string;
  /** The output of -o json and -o yaml. */
  readonly document: unknown;
  /** The message on standard error instead of an empty table. */
  readonly empty: string;
}

/** A listing with its columns, independent of the type of its rows. */
export interface Listing {
  readonly names: readonly string[];
  /** The values whose change --watch reports, one text for each of `names`. */
  readonly fingerprints: readonly string[];
  readonly document: unknown;
  readonly empty: string;
  /** Formats the table: a header, then one line for each of `names`, in the same order. */
  table(format: OutputFormat | undefined, width: number | undefined, widthsMin?: number[]): string;
}

export function createListing<T>(input: ListingInput<T>): Listing {
  const allColumns = [...input.columns, ...(input.wideColumns ?? [])];
  const comparedColumns = allColumns.filter((column) => column.isVolatile !== true);
  return {
    names: input.rows.map(input.name),
    fingerprints: input.rows.map((row) =>
      comparedColumns.map((column) => (column.comparedValue ?? column.value)(row)).join("\u0000"),
    ),
    document: input.document,
    empty: input.empty,
    table: (format, width, columnWidthsMin) => {
      // With -o wide the user has asked for all columns, so a narrow terminal hides none.
      const columns =
        format === "wide"
          ? allColumns.map((column) => ({ ...column, dropOrder: undefined }))
          : input.columns;
      return formatTable(input.rows, columns, {
        width,
        ...(columnWidthsMin === undefined ? {} : { columnWidthsMin }),
      });
    },
  };
}

/** Prints a listing in the format of -o. */
export async function printListing(
  cli: Cli,
  list: Listing,
  format: OutputFormat | undefined,
): Promise<void> {
  if (isDocumentFormat(format)) return printDocument(cli, list.document, format);
  if (format === "name") {
    if (list.names.length > 0) await cli.print(list.names.join("\n"));
    return;
  }
  if (list.names.length === 0) cli.note(list.empty);
  else await cli.print(list.table(format, cli.io.columns));
}

export async function printDocument(
  cli: Cli,
  document: unknown,
  format: "json" | "yaml",
): Promise<void> {
  if (format === "json") return cli.print(JSON.stringify(document, null, 2));
  const { toYaml } = await import("./yaml.ts");
  return cli.print(toYaml(document));
}
