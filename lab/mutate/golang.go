package main

import (
	"go/ast"
	"go/parser"
	"go/token"
)

// changesOfGo returns the changes of a Go file. The condition of a loop is not changed as a whole, and no statement is removed
// without which a function lacks its return.
func changesOfGo(file string, text []byte) ([]change, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	var changes []change
	replace := func(from, to token.Pos, by string, n ast.Node, before, after string) {
		changes = append(changes, change{offset(from), offset(to), by, wrap{offset(n.Pos()), offset(n.End()), before, after}})
	}
	loops := make(map[ast.Node]bool)   // the conditions of loops: without them, tests hang
	returns := make(map[ast.Stmt]bool) // the statements that end functions with results
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Type.Results != nil && n.Body != nil {
				ends(n.Body, returns)
			}
		case *ast.FuncLit:
			if n.Type.Results != nil {
				ends(n.Body, returns)
			}
		case *ast.ForStmt:
			loops[n.Cond] = true
		case *ast.BinaryExpr:
			switch opposite := negated[n.Op.String()]; {
			case loops[n]:
			case n.Op == token.LAND:
				replace(n.X.Pos(), n.Y.Pos(), "", n.X, "("+on+" || (", "))")
				replace(n.X.End(), n.Y.End(), "", n.Y, "("+on+" || (", "))")
			case n.Op == token.LOR:
				replace(n.X.Pos(), n.Y.Pos(), "", n.X, "(!"+on+" && (", "))")
				replace(n.X.End(), n.Y.End(), "", n.Y, "(!"+on+" && (", "))")
			case opposite != "":
				replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), opposite, n, "((", ") != "+on+")")
			}
		case *ast.IfStmt:
			if _, ok := n.Cond.(*ast.BinaryExpr); !ok {
				text := string(text[offset(n.Cond.Pos()):offset(n.Cond.End())])
				replace(n.Cond.Pos(), n.Cond.End(), "!("+text+")", n.Cond, "((", ") != "+on+")")
			}
		}
		for _, s := range statements(n) {
			if removable(s) && !returns[s] {
				replace(s.Pos(), s.End(), "", s, "if !"+on+" { ", " }")
			}
		}
		return true
	})
	return changes, nil
}

// ends notes the statements that end a function with results: those without which the compiler misses a return.
func ends(s ast.Stmt, noted map[ast.Stmt]bool) {
	noted[s] = true
	if list := statements(s); len(list) > 0 {
		ends(list[len(list)-1], noted)
	}
	switch s := s.(type) {
	case *ast.IfStmt:
		if s.Else != nil {
			ends(s.Body, noted)
			ends(s.Else, noted)
		}
	case *ast.LabeledStmt:
		ends(s.Stmt, noted)
	case *ast.SwitchStmt:
		endsOfClauses(s.Body, noted)
	case *ast.TypeSwitchStmt:
		endsOfClauses(s.Body, noted)
	case *ast.SelectStmt:
		endsOfClauses(s.Body, noted)
	}
}

func endsOfClauses(body *ast.BlockStmt, noted map[ast.Stmt]bool) {
	for _, clause := range body.List {
		ends(clause, noted)
	}
}

// statements returns the statements of a block, and of the clause of a switch or a select.
func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// removable reports whether a statement is a call, an assignment or a jump.
func removable(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.ReturnStmt:
		return true
	}
	return false
}
