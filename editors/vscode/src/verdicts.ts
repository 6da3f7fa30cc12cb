// Verdicts of a verified run: beside the lines that they are about, and in a panel.

import * as path from "node:path";
import * as vscode from "vscode";

export interface Verdict {
  verdict: "confirmed" | "refuted" | "undecided" | "not exercised";
  basis: string;
  evidence: string;
  reason: string;
}

export interface Finding {
  rule: string;
  severity: string;
  path: string;
  line: number;
  cell: number | null;
  cell_line: number | null;
  message: string;
  verdict: Verdict | null;
}

const COLOURS: Record<Verdict["verdict"], string> = {
  confirmed: "editorWarning.foreground",
  refuted: "testing.iconPassed",
  undecided: "editorInfo.foreground",
  "not exercised": "disabledForeground",
};
const BASES: Record<string, string> = { t4: "a T4", gpu: "a GPU", phantom: "a phantom", cpu: "the CPU" };
const GO = "t4lint.goTo";
const ORDER: Verdict["verdict"][] = ["confirmed", "undecided", "not exercised", "refuted"];

export class Verdicts implements vscode.Disposable {
  private findings: Finding[] = [];
  private folder = "";
  private panel: vscode.WebviewPanel | undefined;
  /** The findings of the table, in its order. */
  private rows: Finding[] = [];
  private readonly type = vscode.window.createTextEditorDecorationType({
    after: { margin: "0 0 0 2em", fontStyle: "italic" },
    rangeBehavior: vscode.DecorationRangeBehavior.ClosedOpen,
  });
  private readonly listeners = [
    vscode.window.onDidChangeVisibleTextEditors(() => this.decorate()),
    vscode.workspace.onDidChangeTextDocument((event) => this.forget(event)),
    vscode.commands.registerCommand(GO, (row: number) => this.go(row)),
  ];

  /** Show the verdicts of a run. Paths of findings are relative to `folder`. */
  show(findings: Finding[], folder: string, command: string): void {
    this.findings = findings.filter((finding) => finding.verdict !== null);
    this.folder = folder;
    this.decorate();
    this.panel ??= this.open();
    this.rows = [...this.findings].sort(
      (a, b) => rank(a) - rank(b) || a.path.localeCompare(b.path) || a.line - b.line,
    );
    this.panel.webview.html = page(this.rows, command);
    this.panel.reveal(vscode.ViewColumn.Beside, true);
  }

  clear(): void {
    this.findings = [];
    this.decorate();
    this.panel?.dispose();
  }

  dispose(): void {
    this.clear();
    this.type.dispose();
    for (const listener of this.listeners) {
      listener.dispose();
    }
  }

  private open(): vscode.WebviewPanel {
    const where = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const panel = vscode.window.createWebviewPanel("t4lint.verdicts", "t4lint: verdicts", where, {
      enableCommandUris: [GO],
    });
    panel.onDidDispose(() => (this.panel = undefined));
    return panel;
  }

  /** Show the line of a row of the table. */
  private async go(row: number): Promise<void> {
    const finding = this.rows.at(row);
    if (finding === undefined) {
      return;
    }
    const uri = vscode.Uri.file(this.file(finding));
    const line = (finding.cell_line ?? finding.line) - 1;
    if (finding.cell === null) {
      const selection = new vscode.Range(line, 0, line, 0);
      await vscode.window.showTextDocument(uri, { selection, viewColumn: vscode.ViewColumn.One });
      return;
    }
    const notebook = await vscode.workspace.openNotebookDocument(uri);
    const selections = [new vscode.NotebookRange(finding.cell, finding.cell + 1)];
    await vscode.window.showNotebookDocument(notebook, { selections, viewColumn: vscode.ViewColumn.One });
  }

  /** A run says nothing about lines that were changed after it. */
  private forget(event: vscode.TextDocumentChangeEvent): void {
    const changed = event.document.uri.fsPath;
    if (event.contentChanges.length === 0 || !this.findings.some((finding) => this.file(finding) === changed)) {
      return;
    }
    const lines = new Set(
      event.contentChanges.flatMap((it) => range(it.range.start.line + 1, it.range.end.line + 1)),
    );
    const moved = event.contentChanges.some(
      (it) => it.text.includes("\n") || it.range.start.line !== it.range.end.line,
    );
    this.findings = this.findings.filter(
      (finding) => this.file(finding) !== changed || (!moved && !lines.has(finding.line)),
    );
    this.decorate();
  }

  private file(finding: Finding): string {
    return path.resolve(this.folder, finding.path);
  }

  private decorate(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      const options = this.findings.flatMap((finding) => this.option(finding, editor));
      editor.setDecorations(this.type, options);
    }
  }

  private option(finding: Finding, editor: vscode.TextEditor): vscode.DecorationOptions[] {
    const line = lineIn(finding, editor.document, this.file(finding));
    if (line === undefined || finding.verdict === null || line >= editor.document.lineCount) {
      return [];
    }
    const { verdict, basis, evidence, reason } = finding.verdict;
    const said = evidence || reason;
    const color = new vscode.ThemeColor(COLOURS[verdict]);
    return [
      {
        range: editor.document.lineAt(line).range,
        hoverMessage: `**${verdict}** (${basis}) \`${finding.rule}\`${said ? `: ${said}` : ""}`,
        renderOptions: { after: { contentText: `${verdict} on ${BASES[basis] ?? basis}${said ? `: ${shortened(said)}` : ""}`, color } },
      },
    ];
  }
}

/** The 0-based line of a finding in a document: a file, or a cell of a notebook. */
function lineIn(finding: Finding, document: vscode.TextDocument, file: string): number | undefined {
  if (document.uri.scheme === "file") {
    return document.uri.fsPath === file && finding.cell === null ? finding.line - 1 : undefined;
  }
  const notebook = vscode.workspace.notebookDocuments.find((it) => it.uri.fsPath === file);
  const cell = notebook?.getCells().find((it) => it.document === document);
  return cell !== undefined && cell.index === finding.cell ? (finding.cell_line ?? 1) - 1 : undefined;
}

function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 97)}...` : text;
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

function page(findings: Finding[], command: string): string {
  const rows = findings.map(
    (it, row) =>
      `<tr><td class="${it.verdict?.verdict.replace(" ", "-")}">${text(it.verdict?.verdict ?? "")}</td>` +
      `<td><a href="command:${GO}?${encodeURIComponent(JSON.stringify([row]))}">${text(place(it))}</a></td>` +
      `<td><code>${text(it.rule)}</code><br>${prose(it.message)}</td>` +
      `<td>${prose(it.verdict?.evidence || it.verdict?.reason || "")}</td></tr>`,
  );
  const body = rows.length
    ? `<table><tr><th>verdict</th><th>where</th><th>finding</th><th>what the run showed</th></tr>${rows.join("")}</table>`
    : "<p>The run and the check found nothing.</p>";
  return `<!DOCTYPE html><html><head><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
  body { font-family: var(--vscode-font-family); color: var(--vscode-foreground); padding: 0 1em; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; vertical-align: top; padding: .4em .8em .4em 0; border-bottom: 1px solid var(--vscode-panel-border); }
  td:first-child { font-weight: 600; white-space: nowrap; }
  .confirmed { color: var(--vscode-editorWarning-foreground); }
  .refuted { color: var(--vscode-testing-iconPassed); }
  .undecided { color: var(--vscode-editorInfo-foreground); }
</style></head><body><h2>Verdicts</h2><p><code>${text(command)}</code></p>${body}</body></html>`;
}

function place(finding: Finding): string {
  return finding.cell === null
    ? `${finding.path}:${finding.line}`
    : `${finding.path}:cell ${finding.cell + 1}:${finding.cell_line ?? 1}`;
}

function rank(finding: Finding): number {
  return finding.verdict === null ? ORDER.length : ORDER.indexOf(finding.verdict.verdict);
}

function text(raw: string): string {
  return raw.replace(/[&<>"]/g, (it) => `&#${it.charCodeAt(0)};`);
}

/** A message, with what stands in backquotes as code. */
function prose(message: string): string {
  return text(message).replace(/`([^`]+)`/g, "<code>$1</code>");
}
