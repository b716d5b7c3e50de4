"""How clients reach the gateway: routes that lower to statements, rows and questions of privilege."""
